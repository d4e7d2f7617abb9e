package picture

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// Labels are drawn last, each on a plate that hides the lines below it. Where one
// would cover another, it moves along its arrow, or up or down a little.

// label is a text with its position.
type label struct {
	x, y          float64 // of the text: the middle, or an end, of its base line
	anchor, class string
	text          string
}

// plate is the rectangle of a label.
type plate struct{ x, y, width, height float64 }

func (p plate) meets(o plate) bool {
	return p.x < o.x+o.width && o.x < p.x+p.width && p.y < o.y+o.height && o.y < p.y+p.height
}

// Measures of labels, in pixels.
const (
	letterWidth  = 6.4 // on average
	monoWidth    = 7.0
	plateAbove   = 10.5
	plateHeight  = 13.5
	plateMargin  = 2
	labelNudge   = 14 // how far a label moves up or down at once
	labelNudges  = 6
	clearOfArrow = 4
)

func (l label) plate() plate {
	wide := letterWidth
	if l.class == "mono" {
		wide = monoWidth
	}
	p := plate{x: l.x, y: l.y - plateAbove, width: wide*float64(utf8.RuneCountInString(l.text)) + 2*plateMargin, height: plateHeight}
	switch l.anchor {
	case "middle":
		p.x -= p.width / 2
	case "end":
		p.x -= p.width - plateMargin
	default:
		p.x -= plateMargin
	}
	return p
}

// fits reports whether a label covers no other one.
func (d *drawing) fits(l label) bool {
	p := l.plate()
	return p.x >= 0 && !slices.ContainsFunc(d.plates, p.meets)
}

// label adds a text beside a lane. It moves up or down if it would cover another.
func (d *drawing) label(x, y float64, anchor, class, text string) {
	l := label{x, y, anchor, class, text}
	for n := 1; !d.fits(l) && n <= 2*labelNudges; n++ {
		l.y = y + float64(n/2)*labelNudge*float64(1-2*(n%2))
	}
	d.keep(l)
}

// along adds a text to an arrow, as near to the best position as possible.
func (d *drawing) along(x1, y1, x2, y2, best float64, class, text string) {
	var l label
	for _, lift := range []float64{0, labelNudge, -labelNudge, 2 * labelNudge, -2 * labelNudge} {
		for _, off := range []float64{0, 0.1, -0.1, 0.2, -0.2, 0.3, 0.4, 0.5} {
			at := best + off
			if at < 0.05 || at > 0.95 {
				continue
			}
			l = label{x1 + (x2-x1)*at, y1 + (y2-y1)*at - clearOfArrow + lift, "middle", class, text}
			if d.fits(l) {
				d.keep(l)
				return
			}
		}
	}
	d.label(x1+(x2-x1)*best, y1+(y2-y1)*best-clearOfArrow, "middle", class, text)
}

func (d *drawing) keep(l label) {
	p := l.plate()
	d.plates = append(d.plates, p)
	label := fmt.Sprintf(`<rect class="plate" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"/>`+"\n", p.x, p.y, p.width, p.height) +
		fmt.Sprintf(`<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`+"\n", l.x, l.y, l.anchor, l.class, escape(l.text))
	if d.number != 0 {
		label = fmt.Sprintf(`<g class="event" data-event="%d">%s</g>`+"\n", d.number, label)
	}
	d.labels = append(d.labels, label)
}
