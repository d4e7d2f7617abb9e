package top

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/spindleloop/spindle/cmd/spindle/numbers"
)

// clean removes what a terminal would take for a command: names of tasks and errors may
// come from a program's input.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r) {
			return '·'
		}
		return r
	}, s)
}

// cells returns how many columns of a terminal a rune takes.
func cells(r rune) int {
	switch {
	case unicode.Is(unicode.Mn, r):
		return 0
	case r >= 0x1100 && (r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 ||
		r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 ||
		r >= 0xffe0 && r <= 0xffe6 || r >= 0x1f300 && r <= 0x1faff || r >= 0x20000 && r <= 0x3fffd):
		return 2
	}
	return 1
}

// fit makes a text exactly width columns wide: it cuts it, or pads it at the right, or at
// the left if right is set.
func fit(s string, width int, right bool) string {
	s = clean(s)
	used := 0
	for i, r := range s {
		n := cells(r)
		if used+n > width {
			return cut(s[:i], width, used)
		}
		used += n
	}
	pad := strings.Repeat(" ", width-used)
	if right {
		return pad + s
	}
	return s + pad
}

// cut ends a text that is used columns wide with an ellipsis at width.
func cut(s string, width, used int) string {
	if width <= 0 {
		return ""
	}
	runes := []rune(s)
	for used > width-1 && len(runes) > 0 {
		used -= cells(runes[len(runes)-1])
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…" + strings.Repeat(" ", width-1-used)
}

// span formats a time with three digits.
func span(ns int64) string {
	sign := ""
	if ns < 0 {
		sign, ns = "-", -ns
	}
	v := float64(ns)
	switch d := time.Duration(ns); {
	case ns == 0:
		return "0 ms"
	case d < time.Millisecond:
		return sign + fmt.Sprintf("%.0f µs", v/1e3)
	case d < time.Second:
		return sign + numbers.ThreeDigits(v/1e6) + " ms"
	case d < time.Minute:
		return sign + numbers.ThreeDigits(v/1e9) + " s"
	case d < time.Hour:
		return sign + fmt.Sprintf("%d:%02d min", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return sign + fmt.Sprintf("%d:%02d h", int(d.Hours()), int(d.Minutes())%60)
	default:
		return sign + fmt.Sprintf("%d d", int(d.Hours())/24)
	}
}

func size(n uint64) string {
	v := float64(n)
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1e6:
		return numbers.ThreeDigits(v/1e3) + " kB"
	case n < 1e9:
		return numbers.ThreeDigits(v/1e6) + " MB"
	}
	return numbers.ThreeDigits(v/1e9) + " GB"
}

// column is a column of a table.
type column struct {
	title string
	width int // 0 for the rest of the line; one column has it
	right bool
}

// table lays texts out in columns.
type table struct {
	columns []column
	width   int
}

// line returns a row, exactly t.width columns wide.
func (t table) line(texts ...string) string {
	rest := t.width - 2*(len(t.columns)-1)
	for _, c := range t.columns {
		rest -= c.width
	}
	parts := make([]string, len(t.columns))
	for i, c := range t.columns {
		width := c.width
		if width == 0 {
			width = max(rest, 4)
		}
		parts[i] = fit(texts[i], width, c.right)
	}
	return fit(strings.Join(parts, "  "), t.width, false)
}

func (t table) head() string {
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = strings.ToUpper(c.title)
	}
	return t.line(titles...)
}
