package picture

import (
	"fmt"
	"strings"
	"time"

	"github.com/spindleloop/spindle/internal/simkernel"
)

// maxSentences limits a story. It has the end of a longer run.
const maxSentences = 60

// Story tells a decoded trace in sentences. A sentence has the number of its event, from 1.
func Story(trace []simkernel.Event) (story []Sentence) {
	told := map[string]bool{}
	folded, index := Fold(trace)
	last := 0
	for i, e := range folded {
		if index[i] < 0 {
			story = append(story, Sentence{last + 1, "… " + e.Note + "."})
			continue
		}
		last = index[i]
		text := sentence(e)
		if text == "" {
			continue
		}
		if e.KindOf() == simkernel.Dropped && e.Data == "" && told[text] { // sent again, and lost again
			continue
		}
		told[text] = true
		if key := shape(e); e.Size > 0 && told[key] {
			text += ", again"
		} else {
			told[key] = true
		}
		story = append(story, Sentence{last + 1, fmt.Sprintf("At %s %s.", showTime(e.At.Round(time.Microsecond)), text)})
	}
	if skipped := len(story) - maxSentences; skipped > 0 {
		story = story[skipped:]
		story[0].Text = "… " + story[0].Text
	}
	return story
}

// Sentence is a part of a story.
type Sentence struct {
	Event int
	Text  string
}

func sentence(e simkernel.Event) string {
	switch kind := e.KindOf(); kind {
	case simkernel.Connecting, simkernel.Ended, 0:
		return ""
	case simkernel.Connected:
		return fmt.Sprintf("%s connects to port %d of %s", e.From, e.Port, e.To)
	case simkernel.Refused:
		return fmt.Sprintf("%s refuses a connection of %s", e.From, e.To)
	case simkernel.Data, simkernel.Datagram:
		return fmt.Sprintf("%s gets %s from %s", e.To, quoted(e), e.From)
	case simkernel.Dropped:
		what := "a message"
		if e.Text != "" || e.Data != "" {
			what = quoted(e)
		}
		return fmt.Sprintf("%s from %s does not reach %s (%s)", what, e.From, e.To, e.Note)
	case simkernel.Noted:
		return strings.TrimSpace(e.From + " notes: " + e.Note)
	default:
		text := e.From + " " + kind.Phrase()
		if e.To != "" && e.To != e.From {
			text += " " + e.To
		}
		if e.Note != "" {
			text += " (" + e.Note + ")"
		}
		return text
	}
}

// quoted returns the text of a message, or its size.
func quoted(e simkernel.Event) string {
	text := e.Text
	if text == "" {
		text = strings.TrimSpace(e.Data)
	}
	if text == "" || !printable(text) {
		return fmt.Sprintf("%d bytes", e.Size)
	}
	return "“" + shorten(strings.Join(strings.Fields(text), " "), 200) + "”"
}

// maxLine is the maximal length of a message in a list.
const maxLine = 2000

// line returns an event as a row of a list, without its time.
func line(e simkernel.Event) string {
	text := strings.Join(strings.Fields(e.Text), " ")
	if text == "" && e.Data != "" {
		text = strings.Trim(quoted(e), "“”")
	}
	kind := e.KindOf()
	switch {
	case kind == simkernel.Data || kind == simkernel.Datagram:
		return fmt.Sprintf("%s → %s  %s", e.From, e.To, shorten(text, maxLine))
	case kind == simkernel.Noted:
		return e.From + "  " + e.Note
	}
	row := e.From + " " + kind.Phrase()
	if e.To != e.From {
		row += " " + e.To
	}
	if e.Port != 0 {
		row += fmt.Sprint(":", e.Port)
	}
	if text != "" {
		row += "  " + shorten(text, maxLine)
	}
	if e.Note != "" {
		row += "  (" + e.Note + ")"
	}
	return row
}
