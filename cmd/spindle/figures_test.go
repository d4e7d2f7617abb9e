package main

import (
	"strings"
	"testing"
)

func TestUnits(t *testing.T) {
	for _, test := range []struct {
		got, want string
	}{
		{perSecond(1), "1.00 /s"},
		{perSecond(99.96), "100 /s"},
		{perSecond(9_999), "10.0 k/s"},
		{perSecond(71_234_567), "71.2 M/s"},
		{perSecond(123_456_789), "123 M/s"},
		{perSecond(2.5e9), "2.50 G/s"},
		{nanoseconds(0), "0.00 ns"},
		{nanoseconds(312.4), "312 ns"},
		{microseconds(18.44), "18.4 µs"},
		{microseconds(1063), "1.06 ms"},
		{microseconds(2e6), "2.00 s"},
		{milliseconds(0.04), "0.0 ms"},
		{times(3.94), "3.9 ×"},
		{count(0), "0"},
		{count(999), "999"},
		{count(1000), "1,000"},
		{count(1234567), "1,234,567"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}

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

func TestRoundFigure(t *testing.T) {
	for in, want := range map[float64]float64{0: 0, 0.12345: 0.123, 999.99949: 999.999, 1234.5678: 1235} {
		if got := roundFigure(in); got != want {
			t.Errorf("roundFigure(%v) is %v, want %v", in, got, want)
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
