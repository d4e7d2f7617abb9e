package cmdline_test

import (
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/cmd/spindle/cmdline"
)

func parse(args ...string) (out string, err error) {
	flags := flag.NewFlagSet("knit", flag.ContinueOnError)
	flags.String("addr", "", "")
	flags.Int("loops", 1, "number `N` of loops")
	flags.Duration("dial-timeout", 0, "")
	flags.Uint64("seed", 0, "")
	flags.Bool("quick", false, "")
	var b strings.Builder
	err = cmdline.Parse("spindle", flags, "\nspindle knit knits.\n", args, &b)
	return b.String(), err
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for args, want := range map[string]string{
		"--adr x":             "no flag --adr (did you mean --addr?)",
		"--loop 2":            "no flag --loop (did you mean --loops?)",
		"--qiuck":             "no flag --qiuck (did you mean --quick?)",
		"--dialtimeout 1s":    "no flag --dialtimeout (did you mean --dial-timeout?)",
		"--sed=1":             "no flag --sed (did you mean --seed?)",
		"--port 1":            "no flag --port",
		"--x":                 "no flag --x",
		"--addr":              "flag needs an argument: --addr",
		"--loops many":        `invalid value "many" for flag --loops: want a number`,
		"--seed -1":           `invalid value "-1" for flag --seed: want a number from 0`,
		"--dial-timeout soon": `invalid value "soon" for flag --dial-timeout: want a time such as 500ms`,
		"--quick=maybe":       `invalid boolean value "maybe" for --quick: want true or false`,
		"---":                 "bad flag syntax: ---",
		"here --addr x":       `flag --addr must come before "here"`,
		"here there --seed=1": `flag --seed must come before "here"`,
	} {
		out, err := parse(strings.Fields(args)...)
		if want += "; see 'spindle knit --help'"; err == nil || err.Error() != want || out != "" {
			t.Errorf("%s: %q, %v, want %s", args, out, err, want)
		}
	}
}

// TestArgumentsMayBeginWithADash: only a name of a flag is taken for one.
func TestArgumentsMayBeginWithADash(t *testing.T) {
	for _, args := range []string{"here -", "here --unknown", "-- -x"} {
		if out, err := parse(strings.Fields(args)...); out != "" || err != nil {
			t.Errorf("%s: %q, %v", args, out, err)
		}
	}
}

func TestHelpListsTheFlags(t *testing.T) {
	out, err := parse("--help")
	if !errors.Is(err, flag.ErrHelp) || !strings.HasPrefix(out, "spindle knit knits.\n\nFlags:\n  --addr string") || !strings.Contains(out, "  --loops N            number N of loops (default 1)\n") {
		t.Errorf("%v, %s", err, out)
	}
}
