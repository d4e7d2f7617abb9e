package report

import (
	"fmt"
	"slices"
	"strings"
)

// Matrix returns one table of several sections: a line for each, with the median of its reference and
// the ratio to each other row, with quartiles. It returns nothing
// for fewer than two sections, and if they have different references.
func Matrix(title string, sections []Section) string {
	if len(sections) < 2 || slices.ContainsFunc(sections, func(s Section) bool { return s.Reference != sections[0].Reference }) {
		return ""
	}
	var others []string
	for _, s := range sections {
		for _, r := range s.Rows {
			if r.Name != s.Reference && !slices.Contains(others, r.Name) {
				others = append(others, r.Name)
			}
		}
	}
	grid := [][]string{{"", sections[0].Reference}}
	for _, name := range others {
		grid[0] = append(grid[0], "÷ "+name)
	}
	for _, s := range sections {
		cells := make([]string, len(grid[0]))
		cells[0] = s.Title
		for _, r := range s.Rows {
			if r.Name == s.Reference {
				cells[1] = s.Columns[0].Unit.Format(SpreadOf(r.Headline()).Median)
			} else if ratio, ok := s.Ratio(r); ok {
				cells[2+slices.Index(others, r.Name)] = fmt.Sprintf("%.2f (%.2f–%.2f)", ratio.Median, ratio.Q1, ratio.Q3)
			}
		}
		grid = append(grid, cells)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n", title)
	writeGrid(&b, grid)
	return b.String()
}
