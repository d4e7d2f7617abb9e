package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/report"
)

// section returns a section in which Spindle has twice the figures of a peer, in rounds of
// very different speed.
func section() report.Section {
	return report.Section{
		Name: "echo", Title: "Echo <&>", Note: "A note.",
		Columns: []report.Column{
			{Name: "requests / CPU-s", Unit: report.PerSecond},
			{Name: "p99 µs", Unit: report.Microseconds, Better: report.Lower},
		},
		Rows: []report.Row{
			{Name: "spindle", Ours: true, Figures: [][]float64{{200e3, 20e3, 400e3}, {1000, 1500, 1200}}},
			{Name: "peer", Figures: [][]float64{{100e3, 10e3, 200e3}, {2000, 2500, 2200}}, Mark: "only 50 % busy"},
			{Name: "quick", Figures: [][]float64{{2e6, 1e6, 4e6}, {20, 25, 22}}},
		},
		Reference: "spindle",
	}
}

func TestMarkdown(t *testing.T) {
	got := report.Markdown([]report.Section{section()})
	want := strings.TrimLeft(`
## Echo <&>

A note.

| server      | requests / CPU-s |      min–max | p99 µs | spindle ÷ it | quartiles |   min–max |
|-------------|-----------------:|-------------:|-------:|-------------:|----------:|----------:|
| quick       |            2.00M |  1.00M–4.00M |     22 |         0.10 | 0.06–0.10 | 0.02–0.10 |
| **spindle** |           200.0k | 20.0k–400.0k |  1,200 |              |           |           |
| peer \*     |           100.0k | 10.0k–200.0k |  2,200 |         2.00 | 2.00–2.00 | 2.00–2.00 |

\* peer: only 50 % busy
`, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The chart of a recorded table is the same as the chart of its figures.
func TestChartOfRecordedFigures(t *testing.T) {
	higher, lower, alone := section(), section(), section()
	lower.Title, lower.Columns = "Latency", []report.Column{higher.Columns[1]}
	lower.Rows = []report.Row{higher.Rows[2], higher.Rows[0], higher.Rows[1]}
	for i := range lower.Rows {
		lower.Rows[i].Figures = lower.Rows[i].Figures[1:]
	}
	alone.Title, alone.Reference = "Alone", ""
	sections := []report.Section{higher, lower, alone}
	got, err := report.ChartOf("# Figures\n\n"+report.Markdown(sections), higher.Title, lower.Title, alone.Title)
	if want := report.Chart(sections); err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if _, err := report.ChartOf(report.Markdown(sections), "Nothing"); err == nil {
		t.Error("no error for a missing table")
	}
}

func TestMarkdownWithoutReference(t *testing.T) {
	s := section()
	s.Reference = ""
	if got := report.Markdown([]report.Section{s}); strings.Contains(got, "÷") {
		t.Errorf("the table has a ratio without a reference:\n%s", got)
	}
}

func TestRankedPutsTheBestFirst(t *testing.T) {
	s := section()
	if got := s.Ranked()[0].Name; got != "quick" {
		t.Errorf("higher is better: %s is first, want quick", got)
	}
	s.Columns[0].Better = report.Lower
	if got := s.Ranked()[0].Name; got != "peer" {
		t.Errorf("lower is better: %s is first, want peer", got)
	}
}

func TestChartIsWellFormed(t *testing.T) {
	empty := section()
	empty.Rows = nil
	zero := section()
	zero.Rows[0].Figures = [][]float64{{0}, {0}}
	for name, sections := range map[string][]report.Section{
		"none": nil, "one": {section()}, "several": {section(), empty, zero},
	} {
		var texts []string
		d := xml.NewDecoder(strings.NewReader(report.Chart(sections)))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if text, ok := token.(xml.CharData); ok {
				texts = append(texts, string(text))
			}
		}
		if all := strings.Join(texts, "|"); len(sections) > 0 &&
			(!strings.Contains(all, "Echo <&>") || !strings.Contains(all, "×2.00 (2.00–2.00)")) {
			t.Errorf("%s: title or ratio missing in %s", name, all)
		}
	}
}

func TestUnitFormat(t *testing.T) {
	tests := []struct {
		unit report.Unit
		v    float64
		want string
	}{
		{report.PerSecond, 12, "12"},
		{report.PerSecond, 187_430, "187.4k"},
		{report.PerSecond, 1_790_000, "1.79M"},
		{report.Microseconds, 1040.4, "1,040"},
		{report.Bytes, 7867, "7,867"},
		{report.Bytes, 1_234_567, "1,234,567"},
		{report.Bytes, 131, "131"},
		{report.Bytes, -1500, "-1,500"},
		{report.Bytes, -0.3, "0"},
		{report.Share, 0.966, "0.97"},
	}
	for _, tt := range tests {
		if got := tt.unit.Format(tt.v); got != tt.want {
			t.Errorf("%v in unit %d: %q, want %q", tt.v, tt.unit, got, tt.want)
		}
	}
}

// A chart names its colours only in its style, which has them for light and dark pages.
func TestChartsFollowTheColourScheme(t *testing.T) {
	svg := report.Chart([]report.Section{section()})
	style, drawing, ok := strings.Cut(svg, "</style>")
	if !ok || !strings.Contains(style, "prefers-color-scheme: dark") || strings.Contains(drawing, "#") {
		t.Errorf("the colours are not all in the style:\n%s", svg)
	}
}

func TestMatrix(t *testing.T) {
	one, two := section(), section()
	one.Title, two.Title, two.Rows = "One", "Two", two.Rows[:2]
	want := `## All

|     | spindle |           ÷ peer |          ÷ quick |
|-----|--------:|-----------------:|-----------------:|
| One |  200.0k | 2.00 (2.00–2.00) | 0.10 (0.06–0.10) |
| Two |  200.0k | 2.00 (2.00–2.00) |                  |
`
	if got := report.Matrix("All", []report.Section{one, two}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := report.Matrix("All", []report.Section{one}); got != "" {
		t.Errorf("of one section it is %q", got)
	}
	two.Reference = "peer"
	if got := report.Matrix("All", []report.Section{one, two}); got != "" {
		t.Errorf("with two references it is %q", got)
	}
}

// A round measures all names before the next begins, every other one in reverse, and a name that has failed has no
// more turns.
func TestInterleave(t *testing.T) {
	var order []string
	names, err := report.Interleave(3, []string{"a", "b", "c"}, func(name string, round int) error {
		order = append(order, name)
		if name == "b" && round == 1 {
			return io.EOF
		}
		return nil
	}, func(name string, err error) error { return nil })
	if got := strings.Join(order, ""); err != nil || got != "abccbaac" || strings.Join(names, "") != "ac" {
		t.Errorf("%s, %v, %v", got, names, err)
	}
	if _, err := report.Interleave(1, []string{"a"}, func(string, int) error { return io.EOF }, func(_ string, err error) error { return err }); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
}

func TestFlat(t *testing.T) {
	s := section()
	s.Rows[0].Key, s.Rows[1].Key, s.Rows[1].RatioKey = "ours_per_s", "peer_per_s", "ratio"
	want := map[string]float64{"ours_per_s": 200e3, "peer_per_s": 100e3, "ratio": 2}
	if got := report.Flat([]report.Section{s}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := report.Flat([]report.Section{{Columns: s.Columns, Rows: []report.Row{{Key: "a", Figures: [][]float64{{1234.5678}}}, {Key: "b", Figures: [][]float64{{0.12345}}}}}}); got["a"] != 1235 || got["b"] != 0.123 {
		t.Errorf("meaningless digits: %v", got)
	}
}
