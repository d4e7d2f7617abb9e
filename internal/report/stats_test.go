package report_test

import (
	"math"
	"slices"
	"testing"

	"github.com/spindleloop/spindle/internal/report"
)

func TestSpreadOf(t *testing.T) {
	tests := []struct {
		name   string
		values []float64
		want   report.Spread
	}{
		{"none", nil, report.Spread{}},
		{"one", []float64{7}, report.Spread{Min: 7, Q1: 7, Median: 7, Q3: 7, Max: 7, N: 1}},
		{"even", []float64{4, 1, 3, 2}, report.Spread{Min: 1, Q1: 1.75, Median: 2.5, Q3: 3.25, Max: 4, N: 4}},
		{"odd", []float64{5, 3, 1, 4, 2}, report.Spread{Min: 1, Q1: 2, Median: 3, Q3: 4, Max: 5, N: 5}},
		{"equal", []float64{2, 2, 2}, report.Spread{Min: 2, Q1: 2, Median: 2, Q3: 2, Max: 2, N: 3}},
		{"outlier", []float64{1, 1, 1, 1, 100}, report.Spread{Min: 1, Q1: 1, Median: 1, Q3: 1, Max: 100, N: 5}},
	}
	for _, tt := range tests {
		before := slices.Clone(tt.values)
		if got := report.SpreadOf(tt.values); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
		if !slices.Equal(before, tt.values) {
			t.Errorf("%s: the values were reordered", tt.name)
		}
	}
}

func TestRatios(t *testing.T) {
	tests := []struct {
		name       string
		a, b, want []float64
	}{
		{"pairs", []float64{10, 30}, []float64{5, 10}, []float64{2, 3}},
		{"a round only one has", []float64{10, 30}, []float64{5}, []float64{2}},
		{"no division by zero", []float64{1, 4}, []float64{0, 2}, []float64{2}},
		{"none", nil, []float64{1}, nil},
	}
	for _, tt := range tests {
		if got := report.Ratios(tt.a, tt.b); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A slowdown of both servers in a round must not change the ratio.
func TestRatioIsOfTheSameRound(t *testing.T) {
	s := section()
	got, ok := s.Ratio(s.Rows[1])
	if !ok || math.Abs(got.Median-2) > 1e-9 || math.Abs(got.Min-2) > 1e-9 || math.Abs(got.Max-2) > 1e-9 {
		t.Errorf("ratio %+v, %v; want 2 in every round", got, ok)
	}
	if _, ok := s.Ratio(s.Rows[0]); ok {
		t.Error("the reference has a ratio to itself")
	}
	s.Reference = "absent"
	if _, ok := s.Ratio(s.Rows[1]); ok {
		t.Error("there is a ratio without a reference")
	}
}
