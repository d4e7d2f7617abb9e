package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spindleloop/spindle/cmd/spindle/numbers"
	"github.com/spindleloop/spindle/sim"
)

const faultsHelp = `
Faults, for --faults, as NAME=VALUE separated by commas:

  loss duplicate reorder dribble    the share of messages affected
  spurious                          the share of waits that end for no reason
  partition slow crash pause        the average time between two faults
  clock call                        the same
  partition-for slow-for crash-for  the average duration of this kind
  pause-for clock-for               the same
  lasting                           the average duration of the other kinds
  for                               when faults stop
`

// shares are the faults that are set as a share.
var shares = map[string]func(f *sim.Faults) *float64{
	"loss":      func(f *sim.Faults) *float64 { return &f.Loss },
	"duplicate": func(f *sim.Faults) *float64 { return &f.Duplicate },
	"reorder":   func(f *sim.Faults) *float64 { return &f.Reorder },
	"dribble":   func(f *sim.Faults) *float64 { return &f.Dribble },
	"spurious":  func(f *sim.Faults) *float64 { return &f.Spurious },
}

// periods are the faults and durations that are set as a time.
var periods = map[string]func(f *sim.Faults) *time.Duration{
	"partition":     func(f *sim.Faults) *time.Duration { return &f.PartitionEvery },
	"slow":          func(f *sim.Faults) *time.Duration { return &f.SlowEvery },
	"crash":         func(f *sim.Faults) *time.Duration { return &f.CrashEvery },
	"pause":         func(f *sim.Faults) *time.Duration { return &f.PauseEvery },
	"clock":         func(f *sim.Faults) *time.Duration { return &f.ClockEvery },
	"call":          func(f *sim.Faults) *time.Duration { return &f.CallEvery },
	"partition-for": func(f *sim.Faults) *time.Duration { return &f.PartitionFor },
	"slow-for":      func(f *sim.Faults) *time.Duration { return &f.SlowFor },
	"crash-for":     func(f *sim.Faults) *time.Duration { return &f.CrashFor },
	"pause-for":     func(f *sim.Faults) *time.Duration { return &f.PauseFor },
	"clock-for":     func(f *sim.Faults) *time.Duration { return &f.ClockFor },
	"lasting":       func(f *sim.Faults) *time.Duration { return &f.Lasting },
	"for":           func(f *sim.Faults) *time.Duration { return &f.For },
}

// parseFaults parses --faults. Durations that text does not set are those of own.
func parseFaults(text string, own sim.Faults) (sim.Faults, error) {
	f := sim.Faults{For: own.For, Lasting: own.Lasting}
	if text == "none" {
		return f, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return f, fmt.Errorf("%q: want NAME=VALUE", part)
		}
		switch share, period := shares[name], periods[name]; {
		case share != nil:
			x, err := strconv.ParseFloat(value, 64)
			if err != nil || !(x >= 0 && x <= 1) {
				return f, fmt.Errorf("%s=%s: want a share from 0 to 1", name, value)
			}
			*share(&f) = x
		case period != nil:
			d, err := time.ParseDuration(value)
			if err != nil || d <= 0 {
				return f, fmt.Errorf("%s=%s: want a time such as 500ms", name, value)
			}
			*period(&f) = d
		default:
			known := slices.Concat(slices.Sorted(maps.Keys(shares)), slices.Sorted(maps.Keys(periods)))
			return f, fmt.Errorf("unknown fault %q (have %s)", name, strings.Join(known, ", "))
		}
	}
	for _, name := range []string{"partition", "slow", "crash", "pause", "clock", "call"} {
		all := cmp.Or(f.For, time.Minute) // as in sim.Faults
		if every := *periods[name](&f); every > 0 && all/every > maxFaults {
			return f, fmt.Errorf("%s=%v: more than %s faults in %v", name, every, numbers.Thousands(maxFaults), all)
		}
	}
	return f, nil
}

// maxFaults is how many faults of one kind a run may have on average. Package sim makes all of
// them in advance, and has a higher limit for all kinds together.
const maxFaults = 10_000
