package report

import (
	"fmt"
	"strings"
)

// Markdown returns the sections as tables.
func Markdown(sections []Section) string {
	var b strings.Builder
	for i, s := range sections {
		if i > 0 {
			b.WriteByte('\n')
		}
		markdownSection(&b, s)
	}
	return b.String()
}

func markdownSection(b *strings.Builder, s Section) {
	fmt.Fprintf(b, "## %s\n\n", s.Title)
	if s.Note != "" {
		fmt.Fprintf(b, "%s\n\n", s.Note)
	}
	grid := [][]string{s.header()}
	marked := false
	for _, r := range s.Ranked() {
		grid = append(grid, s.line(r))
		marked = marked || r.Mark != ""
	}
	writeGrid(b, grid)
	if marked {
		b.WriteByte('\n')
		for _, r := range s.Ranked() {
			if r.Mark != "" {
				fmt.Fprintf(b, "\\* %s: %s\n", r.Name, r.Mark)
			}
		}
	}
}

func (s Section) header() []string {
	cells := []string{"server"}
	for i, c := range s.Columns {
		cells = append(cells, c.Name)
		if i == 0 {
			cells = append(cells, "min–max")
		}
	}
	if s.hasReference() {
		cells = append(cells, s.Reference+" ÷ it", "quartiles", "min–max")
	}
	return cells
}

func (s Section) line(r Row) []string {
	name := r.Name
	if r.Ours {
		name = "**" + name + "**"
	}
	if r.Mark != "" {
		name += " \\*"
	}
	cells := []string{name}
	for i, c := range s.Columns {
		spread := SpreadOf(r.Figures[i])
		cells = append(cells, c.Unit.Format(spread.Median))
		if i == 0 {
			cells = append(cells, c.Unit.Format(spread.Min)+"–"+c.Unit.Format(spread.Max))
		}
	}
	if !s.hasReference() {
		return cells
	}
	ratio, ok := s.Ratio(r)
	if !ok {
		return append(cells, "", "", "")
	}
	return append(cells,
		fmt.Sprintf("%.2f", ratio.Median),
		fmt.Sprintf("%.2f–%.2f", ratio.Q1, ratio.Q3),
		fmt.Sprintf("%.2f–%.2f", ratio.Min, ratio.Max))
}

func (s Section) hasReference() bool {
	for _, r := range s.Rows {
		if r.Name == s.Reference {
			return true
		}
	}
	return false
}

// writeGrid writes a table. It pads the cells, so that the table is readable in a terminal
// too.
func writeGrid(b *strings.Builder, grid [][]string) {
	widths := make([]int, len(grid[0]))
	for _, line := range grid {
		for i, cell := range line {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for n, line := range grid {
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-len([]rune(cell)))
			if i == 0 {
				fmt.Fprintf(b, "| %s%s ", cell, pad)
			} else {
				fmt.Fprintf(b, "| %s%s ", pad, cell)
			}
		}
		b.WriteString("|\n")
		if n > 0 {
			continue
		}
		for i, w := range widths {
			if i == 0 {
				fmt.Fprintf(b, "|%s", strings.Repeat("-", w+2))
			} else {
				fmt.Fprintf(b, "|%s:", strings.Repeat("-", w+1))
			}
		}
		b.WriteString("|\n")
	}
}
