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

const (
	inkColour   = "#1f2430"
	faintColour = "#6b7280"
	peerColour  = "#b8c0cc"
	ourColour   = "#e4572e"
	rangeColour = "#4b5563"
)

// Chart draws the sections below each other as bars of their first column,
// each with its figure, the range of its rounds and the reference's ratio to it.
func Chart(sections []Section) string {
	height := margin
	for _, s := range sections {
		height += titleHeight + len(s.Rows)*barPitch + sectionGap
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="Helvetica, Arial, sans-serif" font-size="13">`+"\n",
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, height)
	y := margin
	for _, s := range sections {
		chartSection(&b, s, y)
		y += titleHeight + len(s.Rows)*barPitch + sectionGap
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func chartSection(b *strings.Builder, s Section, top int) {
	better := "higher is better"
	if s.Columns[0].Better == Lower {
		better = "lower is better"
	}
	label(b, margin, top+14, `font-size="16" font-weight="bold"`, inkColour, s.Title)
	caption := s.Columns[0].Name + ", " + better
	if s.hasReference() {
		caption += "; × is " + s.Reference + " ÷ it"
	}
	if slices.ContainsFunc(s.Rows, func(r Row) bool { return r.Mark != "" }) {
		caption += "; * has a note in the table"
	}
	label(b, margin, top+36, `font-size="12"`, faintColour, caption)
	longest := 0.0
	for _, r := range s.Rows {
		longest = max(longest, SpreadOf(r.Headline()).Max)
	}
	if longest <= 0 {
		longest = 1
	}
	scale := float64(chartWidth-2*margin-nameWidth-figureWidth) / longest
	for i, r := range s.Ranked() {
		chartBar(b, s, r, top+titleHeight-10+i*barPitch, scale)
	}
}

func chartBar(b *strings.Builder, s Section, r Row, top int, scale float64) {
	spread := SpreadOf(r.Headline())
	colour, weight := peerColour, ""
	if r.Ours {
		colour, weight = ourColour, `font-weight="bold"`
	}
	left, middle := margin+nameWidth, top+barHeight/2
	label(b, left-10, middle+4, `text-anchor="end" `+weight, inkColour, r.Name)
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" rx="2" fill="%s"/>`+"\n",
		left, top, max(spread.Median*scale, 1), barHeight, colour)
	low, high := float64(left)+max(spread.Min, 0)*scale, float64(left)+max(spread.Max, 0)*scale
	if high-low >= 2 {
		fmt.Fprintf(b, `<path d="M%.1f %d H%.1f M%.1f %d v6 M%.1f %d v6" stroke="%s" fill="none"/>`+"\n",
			low, middle, high, low, middle-3, high, middle-3, rangeColour)
	}
	text := s.Columns[0].Unit.Format(spread.Median)
	if r.Mark != "" {
		text += " *"
	}
	at := int(max(high, float64(left)+spread.Median*scale)) + 8
	label(b, at, middle+4, weight, inkColour, text)
	if ratio, ok := s.Ratio(r); ok {
		label(b, at+ratioOffset, middle+4, "", faintColour,
			fmt.Sprintf("×%.2f (%.2f–%.2f)", ratio.Median, ratio.Min, ratio.Max))
	}
}

func label(b *strings.Builder, x, y int, attributes, colour, text string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="%s" %s>`, x, y, colour, attributes)
	xml.EscapeText(b, []byte(text))
	b.WriteString("</text>\n")
}
