package main

import (
	"strings"
	"testing"
)

func TestPercentile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, test := range []struct {
		all  []float64
		p    int
		want float64
	}{
		{[]float64{7}, 50, 7},
		{[]float64{7}, 99, 7},
		{[]float64{3, 1, 2}, 50, 2},
		{[]float64{4, 3, 2, 1}, 50, 2},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
	} {
		if got := percentile(test.all, test.p); got != test.want {
			t.Errorf("percentile %d of %v is %v, want %v", test.p, test.all, got, test.want)
		}
	}
}

func TestProgress(t *testing.T) {
	var w strings.Builder
	p := progress{w: &w, total: 4}
	p.begin("first", 2)
	p.step()
	p.step()
	p.step() // one too many does no harm
	p.begin("second", 2)
	if line := w.String()[strings.LastIndex(w.String(), "\r"):]; line != "\r"+strings.Repeat("█", 15)+strings.Repeat("░", 15)+" second\x1b[K" {
		t.Errorf("in the middle it draws %q", line)
	}
	p.erase()
	if !strings.HasSuffix(w.String(), "\r\x1b[K") {
		t.Errorf("it ends with %q", w.String())
	}
}

func TestProgressIsForTerminals(t *testing.T) {
	var w strings.Builder
	p := newProgress(&w, 1)
	p.begin("alone", 1)
	p.step()
	p.erase()
	if w.Len() > 0 {
		t.Errorf("it writes %q to a writer that is no terminal", w.String())
	}
}
