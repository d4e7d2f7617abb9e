package report

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// Measures of the chart, in pixels.
const (
	chartWidth  = 860
	margin      = 24
	nameWidth   = 150
	figureWidth = 210
	ratioOffset = 64 // from the figure to the ratio
	barHeight   = 18
	barPitch    = 26
	titleHeight = 62
	sectionGap  = 26
)

// style has the colours, by class, for light and dark surroundings. The picture follows the colour scheme of
// the page that shows it.
const style = `<style>
svg { --paper: #ffffff; --ink: #1f2430; --faint: #6b7280; --peer: #b8c0cc; --ours: #e4572e; --range: #4b5563; }
@media (prefers-color-scheme: dark) {
  svg { --paper: #14161c; --ink: #e6e8ee; --faint: #9aa3b2; --peer: #4a5364; --ours: #f0693f; --range: #c3c9d4; }
}
.paper { fill: var(--paper) } .ink { fill: var(--ink) } .faint { fill: var(--faint) }
.peer { fill: var(--peer) } .ours { fill: var(--ours) } .range { stroke: var(--range); fill: none }
</style>
`

// chart is the drawing of one section.
type chart struct {
	title, caption string
	bars           []bar
}

// bar is one row: its figure, the range of its rounds, and the reference's ratio to it.
type bar struct {
	name             string
	ours             bool
	min, median, max float64
	text, ratio      string // ratio is empty for the reference
}

// Chart draws the sections below each other. Each row is a bar of its first column, with
// the figure, the range of its rounds and the reference's ratio to it.
func Chart(sections []Section) string {
	var charts []chart
	for _, s := range sections {
		charts = append(charts, s.chart())
	}
	return draw(charts)
}

// chart returns the drawing of the section's first column.
func (s Section) chart() chart {
	reference, marked := "", slices.ContainsFunc(s.Rows, func(r Row) bool { return r.Mark != "" })
	if s.hasReference() {
		reference = s.Reference
	}
	c := chart{title: s.Title, caption: caption(s.Columns[0].Name, s.Columns[0].Better, reference, marked)}
	for _, r := range s.Ranked() {
		spread := SpreadOf(r.Headline())
		b := bar{name: r.Name, ours: r.Ours, min: spread.Min, median: spread.Median, max: spread.Max, text: s.Columns[0].Unit.Format(spread.Median)}
		if r.Mark != "" {
			b.text += " *"
		}
		if ratio, ok := s.Ratio(r); ok {
			b.ratio = fmt.Sprintf("×%.2f (%.2f–%.2f)", ratio.Median, ratio.Min, ratio.Max)
		}
		c.bars = append(c.bars, b)
	}
	return c
}

func caption(column string, better Better, reference string, marked bool) string {
	text := column + ", higher is better"
	if better == Lower {
		text = column + ", lower is better"
	}
	if reference != "" {
		text += "; × is " + reference + " ÷ it"
	}
	if marked {
		text += "; * has a note in the table"
	}
	return text
}

func draw(charts []chart) string {
	height := margin
	for _, c := range charts {
		height += titleHeight + len(c.bars)*barPitch + sectionGap
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="Helvetica, Arial, sans-serif" font-size="13">`+"\n",
		chartWidth, height, chartWidth, height)
	b.WriteString(style)
	fmt.Fprintf(&b, `<rect class="paper" width="%d" height="%d"/>`+"\n", chartWidth, height)
	y := margin
	for _, c := range charts {
		c.draw(&b, y)
		y += titleHeight + len(c.bars)*barPitch + sectionGap
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (c chart) draw(b *strings.Builder, top int) {
	label(b, margin, top+14, `font-size="16" font-weight="bold"`, "ink", c.title)
	label(b, margin, top+36, `font-size="12"`, "faint", c.caption)
	longest := 0.0
	for _, r := range c.bars {
		longest = max(longest, r.max)
	}
	if longest <= 0 {
		longest = 1
	}
	scale := float64(chartWidth-2*margin-nameWidth-figureWidth) / longest
	for i, r := range c.bars {
		r.draw(b, top+titleHeight-10+i*barPitch, scale)
	}
}

func (r bar) draw(b *strings.Builder, top int, scale float64) {
	class, weight := "peer", ""
	if r.ours {
		class, weight = "ours", `font-weight="bold"`
	}
	left, middle := margin+nameWidth, top+barHeight/2
	label(b, left-10, middle+4, `text-anchor="end" `+weight, "ink", r.name)
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" rx="2" class="%s"/>`+"\n",
		left, top, max(r.median*scale, 1), barHeight, class)
	low, high := float64(left)+max(r.min, 0)*scale, float64(left)+max(r.max, 0)*scale
	if high-low >= 2 {
		fmt.Fprintf(b, `<path d="M%.1f %d H%.1f M%.1f %d v6 M%.1f %d v6" class="range"/>`+"\n",
			low, middle, high, low, middle-3, high, middle-3)
	}
	at := int(max(high, float64(left)+r.median*scale)) + 8
	label(b, at, middle+4, weight, "ink", r.text)
	if r.ratio != "" {
		label(b, at+ratioOffset, middle+4, "", "faint", r.ratio)
	}
}

func label(b *strings.Builder, x, y int, attributes, class, text string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" class="%s" %s>`, x, y, class, attributes)
	xml.EscapeText(b, []byte(text))
	b.WriteString("</text>\n")
}
