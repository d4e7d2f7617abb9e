package inspect

import (
	"math"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/probe"
)

// The shares of phases add up to 1. Waits are measured. The others are in proportion to the
// turns that were measured; there may be none.
func TestSharesOfPhases(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		name       string
		now, then  *probe.Phases
		at, before time.Duration
		want       *inspectapi.Phases
	}{
		{"not attached", nil, nil, s, 0, nil},
		{"since it was attached", &probe.Phases{Began: s, Wait: 900 * ms, Events: ms}, nil, 2 * s, 0, &inspectapi.Phases{Wait: .9, Events: .1}},
		{"no turn was measured", &probe.Phases{Wait: 3 * s}, &probe.Phases{Wait: 2 * s}, 5 * s, 3 * s, &inspectapi.Phases{Wait: .5, Ready: .5}},
		{"attached again", &probe.Phases{Began: 4 * s, Wait: s}, &probe.Phases{Wait: 2 * s}, 5 * s, 3 * s, &inspectapi.Phases{Wait: 1}},
		{"since the time before", &probe.Phases{Inbox: 2 * ms, Timers: 3 * ms, Ready: 3 * ms, Events: 4 * ms}, &probe.Phases{Inbox: ms, Timers: ms}, 2 * s, s,
			&inspectapi.Phases{Inbox: .1, Timers: .2, Ready: .3, Events: .4}},
		{"no time has passed", &probe.Phases{}, nil, 0, 0, nil},
	} {
		got := share(&vitals{clock: c.at, phases: c.now}, &vitals{clock: c.before, phases: c.then})
		if got == nil || c.want == nil {
			if got != c.want {
				t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
			}
			continue
		}
		for _, pair := range [][2]float64{{got.Inbox, c.want.Inbox}, {got.Timers, c.want.Timers}, {got.Ready, c.want.Ready}, {got.Wait, c.want.Wait}, {got.Events, c.want.Events}} {
			if math.Abs(pair[0]-pair[1]) > 1e-9 {
				t.Errorf("%s: %+v, want %+v", c.name, *got, *c.want)
			}
		}
	}
}
