package picture

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spindleloop/spindle/internal/simkernel"
)

const (
	longestBeat = 8 // events that repeat together
	fewestBeats = 4 // repetitions that are folded
)

// Fold replaces repetitions of the same few messages, such as heartbeats, by the first and the last of
// them, with a note between that counts the others. Faults are never folded, but messages that they drop are. It also returns the index of each
// event in the trace; that of a note is -1.
func Fold(trace []simkernel.Event) (folded []simkernel.Event, index []int) {
	shapes := make([]string, len(trace))
	for i, e := range trace {
		shapes[i] = beat(e)
	}
	keep := func(from, to int) {
		for i := from; i < to; i++ {
			folded, index = append(folded, trace[i]), append(index, i)
		}
	}
	for i := 0; i < len(trace); {
		period, times := repetition(shapes[i:])
		if times < fewestBeats {
			keep(i, i+1)
			i++
			continue
		}
		last := i + period*(times-1)
		keep(i, i+period)
		from := trace[i].From
		index = append(index, -1)
		folded = append(folded, simkernel.Event{
			Kind: "note", At: trace[last-1].At, Sent: trace[last-1].At, From: from, To: from,
			Note: fmt.Sprintf("%s, %d times until %v", again(period), times-2, trace[last-1].At.Round(time.Millisecond)),
		})
		i = last + period
		keep(last, i)
	}
	return folded, index
}

func again(period int) string {
	if period == 1 {
		return "the same again"
	}
	return fmt.Sprintf("the last %d again", period)
}

// repetition returns the number of shapes that repeat from the first one on, and how often: what
// covers most.
func repetition(shapes []string) (period, times int) {
	for p := 1; p <= longestBeat && p*fewestBeats <= len(shapes); p++ {
		if shapes[0] == "" {
			return 0, 0
		}
		n := p
		for n < len(shapes) && shapes[n] != "" && shapes[n] == shapes[n-p] {
			n++
		}
		if n/p >= fewestBeats && n/p*p > period*times && !slices.Contains(shapes[:p], "") {
			period, times = p, n/p
		}
	}
	return period, times
}

var numbers = regexp.MustCompile(`[0-9]+`)

// beat returns what events of a heartbeat have in common. It is "" for events that are not
// folded.
func beat(e simkernel.Event) string {
	switch e.KindOf() {
	case simkernel.Connecting, simkernel.Connected, simkernel.Data, simkernel.Ended, simkernel.Datagram, simkernel.Dropped:
		e.Text, e.Data = numbers.ReplaceAllString(e.Text, "#"), numbers.ReplaceAllString(e.Data, "#") // not in the names of hosts
		return shape(e)
	}
	return ""
}

// shape returns an event without its time and the number of its connection.
func shape(e simkernel.Event) string {
	text := e.Text
	if text == "" {
		text = e.Data
	}
	return strings.Join([]string{e.Kind, e.From, e.To, fmt.Sprint(e.Port), text, e.Note}, "\x00")
}
