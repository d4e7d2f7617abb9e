// Package report turns the figures of paired rounds into a Markdown table and an SVG
// chart, with the ratio of one row, the reference, to each other row.
package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Section is one benchmark: the same figures of every row, round by round.
type Section struct {
	Name  string // the name on the command line
	Group string // of several benchmarks; may be empty
	Title string
	Note  string // a sentence under the title; may be empty
	// Columns are the figures. Rows are compared by the first one.
	Columns []Column
	Rows    []Row
	// Reference is the name of the row to compare the others with. If it is empty or
	// no such row exists, no ratios are shown.
	Reference string
}

// A Column is one kind of figure.
type Column struct {
	Name   string
	Unit   Unit
	Better Better
}

// Better is the better direction of a column's figures.
type Better int

// The directions.
const (
	Higher Better = iota
	Lower
)

// A Unit is the format of a figure.
type Unit int

// The units of the benchmarks.
const (
	PerSecond    Unit = iota // 187k, 1.79M
	Microseconds             // 1,040
	Bytes                    // 7,867
	Share                    // 0.97
	Number                   // 1,234, 16.4, 0.04
)

// A Row is one server or runtime.
type Row struct {
	Name string
	Ours bool
	// Figures holds, for each column, one value for each round.
	Figures [][]float64
	// Mark is a caveat shown with the row; empty for most.
	Mark string
	// Key and RatioKey are the names of the median and of the reference's ratio for programs; see [Flat].
	Key, RatioKey string
}

// Flat returns the medians of the first column, and of ratios, by the keys of the rows, without meaningless digits.
func Flat(sections []Section) map[string]float64 {
	all := map[string]float64{}
	for _, s := range sections {
		for _, r := range s.Rows {
			if r.Key != "" && len(r.Headline()) > 0 {
				all[r.Key] = rounded(SpreadOf(r.Headline()).Median)
			}
			if ratio, ok := s.Ratio(r); ok && r.RatioKey != "" {
				all[r.RatioKey] = rounded(ratio.Median)
			}
		}
	}
	return all
}

func rounded(v float64) float64 {
	if math.Abs(v) >= 1000 {
		return math.Round(v)
	}
	return math.Round(v*1000) / 1000
}

// Headline returns the values of the first column.
func (r Row) Headline() []float64 { return r.Figures[0] }

// Ranked returns the rows sorted by the median of the first column, the best first.
func (s Section) Ranked() []Row {
	rows := slices.Clone(s.Rows)
	slices.SortStableFunc(rows, func(a, b Row) int {
		x, y := SpreadOf(a.Headline()).Median, SpreadOf(b.Headline()).Median
		if s.Columns[0].Better == Lower {
			x, y = y, x
		}
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return rows
}

// Ratio returns the spread of the reference's ratio to row, and reports whether there is
// one.
func (s Section) Ratio(row Row) (Spread, bool) {
	i := slices.IndexFunc(s.Rows, func(r Row) bool { return r.Name == s.Reference })
	if i < 0 || row.Name == s.Reference {
		return Spread{}, false
	}
	spread := SpreadOf(Ratios(s.Rows[i].Headline(), row.Headline()))
	return spread, spread.N > 0
}

// Format formats a figure in the unit.
func (u Unit) Format(v float64) string {
	switch u {
	case PerSecond:
		switch {
		case v >= 1e6:
			return fmt.Sprintf("%.2fM", v/1e6)
		case v >= 1e3:
			return fmt.Sprintf("%.1fk", v/1e3)
		}
		return fmt.Sprintf("%.0f", v)
	case Share:
		return fmt.Sprintf("%.2f", v)
	case Number:
		switch {
		case v < 10:
			return fmt.Sprintf("%.2f", v)
		case v < 100:
			return fmt.Sprintf("%.1f", v)
		}
	}
	return Thousands(v)
}

// Thousands formats v as a whole number with commas.
func Thousands(v float64) string {
	digits := fmt.Sprintf("%.0f", math.Abs(v))
	var b strings.Builder
	if math.Round(v) < 0 {
		b.WriteByte('-')
	}
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
