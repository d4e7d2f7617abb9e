package picture

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spindleloop/spindle/internal/simkernel"
)

// style has the colours. They are repeated for dark colours, because not every viewer
// supports variables.
const style = `<style>
text{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2430}
.title{font-size:17px;font-weight:600}.host{font-size:14px;font-weight:600}
.time{fill:#7a8194;font-size:11px}.mono{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:11.5px}
.quiet{fill:#7a8194}.bad{fill:#b3261e}
.paper{fill:#fff}.plate{fill:#fff;fill-opacity:.85}.lane{stroke:#c3c8d4;stroke-width:2}.down{stroke:#b3261e;stroke-width:2;stroke-dasharray:2 5}
.paused{fill:#d9dce5}.tag{fill:#eef0f5;stroke:#c3c8d4}.grid{stroke:#eef0f5}
.msg{stroke:#2457c5;stroke-width:1.6;fill:none}.hand{stroke:#9aa2b5;stroke-width:1.2;fill:none}
.lost{stroke:#b3261e;stroke-width:1.6;fill:none;stroke-dasharray:5 4}.cross{stroke:#b3261e;stroke-width:2.2}
.tip{fill:#2457c5}.hand-tip{fill:#9aa2b5}.bad-tip{fill:#b3261e}.parted{fill:#b3261e;fill-opacity:.09}.ending{fill:#b3261e;fill-opacity:.12}
@media (prefers-color-scheme:dark){
text{fill:#e4e7ee}.time,.quiet{fill:#8b93a7}.bad{fill:#ff8a80}.paper{fill:#15181f}.plate{fill:#15181f}
.lane{stroke:#454c5e}.down,.lost,.cross{stroke:#ff8a80}.paused{fill:#323848}.tag{fill:#232836;stroke:#454c5e}.grid{stroke:#1e222c}
.msg{stroke:#8ab4ff}.hand{stroke:#626b80}.tip{fill:#8ab4ff}.hand-tip{fill:#626b80}.bad-tip{fill:#ff8a80}.parted,.ending{fill:#ff8a80;fill-opacity:.14}
}</style>
<defs>
<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="tip" d="M0,0L8,4L0,8z"/></marker>
<marker id="hand-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="hand-tip" d="M0,0L8,4L0,8z"/></marker>
<marker id="bad-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="bad-tip" d="M0,0L8,4L0,8z"/></marker>
</defs>
`

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(d.out, format, args...) }

// text writes a text. class may have several classes.
func (d *drawing) text(x, y float64, anchor, class, s string) {
	d.printf(`<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`+"\n", x, y, anchor, class, escape(s))
}

func (d *drawing) line(x1, y1, x2, y2 float64, class, tip string) {
	if tip != "" {
		tip = ` marker-end="url(#` + tip + `)"`
	}
	d.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"%s/>`+"\n", x1, y1, x2, y2, class, tip)
}

func (d *drawing) box(x, y, width, height float64, class string) {
	d.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="3" class="%s"/>`+"\n", x, y, width, height, class)
}

func escape(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s))
	return b.String()
}

func (d *drawing) draw() {
	w := d.width()
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img">`+"\n", w, d.height, w, d.height)
	d.printf("<title>%s</title>\n", escape(d.Title))
	d.out.WriteString(style)
	d.printf(`<rect class="paper" width="%.0f" height="%.0f"/>`+"\n", w, d.height)
	d.text(20, 30, "start", "title", d.Title)
	d.times()
	d.partitions()
	d.hosts()
	for i := range d.marks {
		if d.number = d.marks[i].number; d.number == 0 {
			d.mark(&d.marks[i])
			continue
		}
		d.printf(`<g class="event" data-event="%d"><title>%s</title>`, d.number, escape(line(d.marks[i].Event)))
		d.mark(&d.marks[i])
		d.out.WriteString("</g>\n")
	}
	for _, label := range d.labels {
		d.out.WriteString(label)
	}
	if d.Ending != "" {
		d.box(14, d.bottom+2, w-28, float64(len(d.ending))*lineHeight+13, "ending")
		d.text(26, d.bottom+21, "start", "bad", "✗")
		for i, line := range d.ending {
			d.text(44, d.bottom+21+float64(i)*lineHeight, "start", "bad", line)
		}
	}
	d.out.WriteString("</svg>\n")
}

// times writes times at the left edge, as far as there is space.
func (d *drawing) times() {
	last := 0.0
	for i := range d.marks {
		m := &d.marks[i]
		at := m.At
		if m.answered() {
			at = m.Sent
		}
		if y := d.places[at]; y >= last+13 || last == 0 {
			d.text(leftMargin-104, y+4, "end", "time", showTime(at))
			d.line(leftMargin-96, y, d.width()-20, y, "grid", "")
			last = y
		}
	}
}

// showTime formats a time to the microsecond, and longer times less exactly.
func showTime(t time.Duration) string {
	switch {
	case t >= time.Minute:
		return t.Round(time.Millisecond).String()
	case t >= time.Second:
		return t.Round(100 * time.Microsecond).String()
	}
	return t.Round(time.Microsecond).String()
}

// spans calls each for every span of time that begins with an event of kind begin and ends
// with one of kind end.
func (d *drawing) spans(begin, end simkernel.Kind, each func(m *mark, from, to float64)) {
	type way struct{ from, to string }
	open := map[way]*mark{}
	for i := range d.marks {
		m := &d.marks[i]
		key := way{m.From, m.To}
		switch began := open[key]; {
		case m.kind == begin && began == nil:
			open[key] = m
		case m.kind == end && began != nil:
			each(began, began.to, m.to)
			delete(open, key)
		}
	}
	for i := range d.marks { // in the order of marks, not of the map
		if m := &d.marks[i]; open[way{m.From, m.To}] == m {
			each(m, m.to, d.bottom)
		}
	}
}

// partitions shades the space between two lanes during a partition: for each direction the
// half beside the sender.
func (d *drawing) partitions() {
	d.spans(simkernel.Partitioned, simkernel.Healed, func(m *mark, from, to float64) {
		a, b := d.lane(m.From), d.lane(m.To)
		middle := (a + b) / 2
		d.box(min(a, middle), from, max(a, middle)-min(a, middle), max(to-from, 4), "parted")
	})
}

// hosts draws the lanes: thick where a host is paused, dotted where it is down.
func (d *drawing) hosts() {
	for _, host := range d.lanes {
		x := d.lane(host)
		wide := 22 + 8*float64(utf8.RuneCountInString(host))
		d.box(x-wide/2, titleSpace+8, wide, 26, "tag")
		d.text(x, titleSpace+26, "middle", "host", host)
		from, down := float64(titleSpace+34), false
		until := func(y float64) {
			class := "lane"
			if down {
				class = "down"
			}
			d.line(x, from, x, y, class, "")
			from = y
		}
		for i := range d.marks {
			if m := &d.marks[i]; m.From == host && (m.kind == simkernel.Crashed || m.kind == simkernel.Booted) {
				until(m.to)
				down = m.kind == simkernel.Crashed
			}
		}
		until(d.bottom)
	}
	d.spans(simkernel.Paused, simkernel.Resumed, func(m *mark, from, to float64) {
		d.box(d.lane(m.From)-6, from, 12, max(to-from, 4), "paused")
	})
}

// mark draws one event.
func (d *drawing) mark(m *mark) {
	a, b := d.lane(m.From), d.lane(m.To)
	switch m.kind {
	case simkernel.Data, simkernel.Datagram:
		d.arrow(m, a, b, m.from, m.to, "msg", "tip", "mono", content(m.Event))
	case simkernel.Ended:
		d.arrow(m, a, b, m.from, m.to, "hand", "hand-tip", "quiet", fmt.Sprint("end of #", m.Conn))
	case simkernel.Reset:
		d.arrow(m, a, b, m.from, m.to, "lost", "bad-tip", "bad", fmt.Sprint("reset of #", m.Conn))
	case simkernel.Connected:
		if m.answers { // the answer itself is left out: the data that follows implies it
			d.arrow(m, a, b, d.places[m.request], m.from, "hand", "hand-tip", "quiet", fmt.Sprintf("connect :%d (#%d)", m.Port, m.Conn))
		} else {
			d.arrow(m, b, a, m.from, m.to, "hand", "hand-tip", "quiet", fmt.Sprintf("connected (#%d)", m.Conn))
		}
	case simkernel.Refused:
		if m.answers {
			d.arrow(m, b, a, d.places[m.request], m.from, "hand", "hand-tip", "quiet", fmt.Sprint("connect :", m.Port))
		}
		d.arrow(m, a, b, m.from, m.to, "lost", "bad-tip", "bad", "refused")
	case simkernel.Dropped:
		d.dropped(m, a, b)
	case simkernel.Partitioned, simkernel.Healed:
		d.partition(m, a, b)
	default:
		d.note(m, a)
	}
}

// arrow draws a message. Its label is nearer to the sender, so that the labels of messages
// in opposite directions do not meet.
func (d *drawing) arrow(m *mark, a, b, from, to float64, class, tip, label, text string) {
	if a == b { // it does not leave its host
		d.printf(`<path d="M%.1f,%.1fh26v10h-22" class="%s" marker-end="url(#%s)"/>`+"\n", a, to-10, class, tip)
		d.label(a+34, to-1, "start", label, text)
		return
	}
	d.line(a, from, b, to, class, tip)
	at := 0.36
	if abs(b-a) > laneWidth*1.5 { // in the first gap that it crosses
		at = 0.4 * laneWidth / abs(b-a)
	}
	d.along(a, from, b, to, at, label, text)
}

func abs(x float64) float64 { return max(x, -x) }

// dropped draws a message that does not arrive: it ends on its way, or just before the
// receiver.
func (d *drawing) dropped(m *mark, a, b float64) {
	x, y := a+(b-a)*0.47, m.to
	if m.At > m.Sent {
		x = b - (b-a)*0.05
	}
	if a == b {
		x = a + 40
	}
	d.line(a, m.from, x, y, "lost", "")
	d.line(x-5, y-5, x+5, y+5, "cross", "")
	d.line(x-5, y+5, x+5, y-5, "cross", "")
	text := m.Note
	if m.Data != "" {
		text = fmt.Sprintf("%s (%s)", content(m.Event), text)
	}
	d.along(a, m.from, x, y, 0.5, "bad", text)
}

// partition notes the begin or end of a partition, with its direction.
func (d *drawing) partition(m *mark, a, b float64) {
	text, class := "partitioned from "+m.To, "bad"
	if m.kind == simkernel.Healed {
		text, class = "reconnected to "+m.To, "quiet"
	}
	if a <= b {
		d.label(a+10, m.to+4, "start", class, text)
	} else {
		d.label(a-10, m.to+4, "end", class, text)
	}
}

// note describes what happened to a host, beside its lane.
func (d *drawing) note(m *mark, x float64) {
	text, class := m.kind.Phrase(), "bad"
	switch m.kind {
	case simkernel.Crashed:
		d.line(x-6, m.to-6, x+6, m.to+6, "cross", "")
		d.line(x-6, m.to+6, x+6, m.to-6, "cross", "")
	case simkernel.Booted, simkernel.Resumed, simkernel.Noted:
		class = "quiet"
	}
	switch m.kind {
	case simkernel.Noted:
		text = m.Note
	case simkernel.RateSet:
		text += fmt.Sprintf(" %s (%s)", m.To, m.Note)
	case simkernel.CallFailed, simkernel.ClockSet:
		text += fmt.Sprintf(" (%s)", m.Note)
	}
	d.label(x+12, m.to-3, "start", class, shorten(text, maxNote))
}

// content returns the text of a message, shortened.
func content(e simkernel.Event) string {
	if e.Text != "" {
		return shorten(e.Text, maxContent)
	}
	text := strings.TrimRight(e.Data, "\n")
	if text == "" || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' }) {
		return fmt.Sprint(e.Size, " bytes")
	}
	text = shorten(strings.ReplaceAll(text, "\n", " ⏎ "), maxContent)
	if e.Size > len(e.Data) {
		text = strings.TrimSuffix(text, "…") + "… (" + strconv.Itoa(e.Size) + " bytes)"
	}
	return text
}

// maxContent and maxNote are the maximal lengths of texts in a picture. A pointer over an event shows all of it.
const (
	maxContent = 22
	maxNote    = 36
)

func shorten(s string, most int) string {
	s, _, more := strings.Cut(s, "\n")
	if utf8.RuneCountInString(s) <= most {
		if more {
			s += " …"
		}
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// wrap breaks the first line of a text into lines.
func wrap(s string, most int) (lines []string) {
	s, _, _ = strings.Cut(s, "\n")
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && utf8.RuneCountInString(line+" "+word) > most {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
