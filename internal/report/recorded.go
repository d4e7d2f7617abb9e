package report

import (
	"fmt"
	"strconv"
	"strings"
)

// ChartOf draws the tables under the given titles in text, which has the output of
// Markdown. It makes a chart of recorded figures without the figures of their rounds.
func ChartOf(text string, titles ...string) (string, error) {
	tables := tablesOf(text)
	var charts []chart
	for _, title := range titles {
		c, err := recorded(title, tables[title])
		if err != nil {
			return "", err
		}
		charts = append(charts, c)
	}
	return draw(charts), nil
}

// tablesOf returns the cells of the first table under each title.
func tablesOf(text string) map[string][][]string {
	tables := map[string][][]string{}
	title, inside := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		row, ok := strings.CutPrefix(line, "| ")
		switch {
		case strings.HasPrefix(line, "#"):
			title, inside = strings.TrimLeft(line, "# "), false
		case strings.HasPrefix(line, "|-"):
		case !ok:
			inside = inside && line != ""
		case inside || tables[title] == nil:
			inside = true
			cells := strings.Split(strings.TrimSuffix(row, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			tables[title] = append(tables[title], cells)
		}
	}
	return tables
}

// recorded returns the chart of a table. The second column is the figure, the third its
// range. If there is a reference, the last three columns are its ratio to the row.
func recorded(title string, table [][]string) (chart, error) {
	if len(table) < 2 || len(table[0]) < 3 || table[0][2] != "min–max" {
		return chart{}, fmt.Errorf("report: no table of figures under the title %q", title)
	}
	head := table[0]
	ratioAt := len(head) - 3
	reference, hasReference := strings.CutSuffix(head[ratioAt], " ÷ it")
	if !hasReference {
		reference = ""
	}
	c := chart{title: title}
	marked := false
	for _, cells := range table[1:] {
		if len(cells) != len(head) {
			return chart{}, fmt.Errorf("report: %q: a row has %d cells, the header has %d", title, len(cells), len(head))
		}
		name, mark := strings.CutSuffix(cells[0], ` \*`)
		b := bar{name: strings.Trim(name, "*"), ours: strings.HasPrefix(name, "**"), text: cells[1]}
		low, high, _ := strings.Cut(cells[2], "–")
		for _, f := range []struct {
			to   *float64
			text string
		}{{&b.median, cells[1]}, {&b.min, low}, {&b.max, high}} {
			v, err := figure(f.text)
			if err != nil {
				return chart{}, fmt.Errorf("report: %q: %w", title, err)
			}
			*f.to = v
		}
		if mark {
			b.text, marked = b.text+" *", true
		}
		if hasReference && cells[ratioAt] != "" {
			b.ratio = fmt.Sprintf("×%s (%s)", cells[ratioAt], cells[ratioAt+2])
		}
		c.bars = append(c.bars, b)
	}
	better := Higher // rows are sorted, the best first
	if c.bars[0].median < c.bars[len(c.bars)-1].median {
		better = Lower
	}
	c.caption = caption(head[1], better, reference, marked)
	return c, nil
}

// figure parses the output of Unit.Format.
func figure(text string) (float64, error) {
	scale := 1.0
	if t, ok := strings.CutSuffix(text, "M"); ok {
		text, scale = t, 1e6
	} else if t, ok := strings.CutSuffix(text, "k"); ok {
		text, scale = t, 1e3
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	return v * scale, err
}
