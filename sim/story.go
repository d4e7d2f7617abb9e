package sim

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/spindleloop/spindle"
)

// lastEvents is how many events of the trace a story shows.
const lastEvents = 60

// Story describes the failure for people: its seed, its error, the command that
// replays it, the faults it needs, and the end of the trace. The command is again;
// if it is "", the story has none.
func (f *Failure) Story(again string) string {
	var b strings.Builder
	w := f.World
	why := f.Err.Error()
	fmt.Fprintf(&b, "sim: seed %d fails after %v: %s\n", w.Seed(), w.Now(), why)
	var fault *spindle.PanicError
	if errors.As(f.Err, &fault) && !strings.Contains(why, string(fault.Stack)) {
		fmt.Fprintf(&b, "%s\n", fault.Stack)
	}
	if again != "" {
		fmt.Fprintf(&b, "again: %s\n", again)
	}
	if len(w.script) > 0 || len(w.Faults.rates()) > 0 {
		f.writeFaults(&b)
	}
	trace := w.Trace()
	if skipped := len(trace) - lastEvents; skipped > 0 {
		fmt.Fprintf(&b, "trace, without its first %d lines:\n", skipped)
		trace = trace[skipped:]
	} else {
		fmt.Fprintf(&b, "trace:\n")
	}
	b.WriteString(trace.String())
	return b.String()
}

func (f *Failure) writeFaults(b *strings.Builder) {
	script := f.World.scheduled()
	var rates []string
	for _, name := range f.World.Faults.rates() {
		if f.World.keeps(name) {
			rates = append(rates, name)
		}
	}
	if len(script) == 0 && len(rates) == 0 {
		fmt.Fprintf(b, "it needs no faults\n")
		return
	}
	fmt.Fprintf(b, "faults that it needs:\n")
	for _, fault := range script {
		fmt.Fprintln(b, fault)
	}
	for _, name := range rates {
		fmt.Fprintf(b, "%12s  %s\n", "", name)
	}
}

// testCommand returns the command that replays the failure of the nth exploration of a test.
// It works from anywhere in the test's module.
func (f *Failure) testCommand(test string, nth int) string {
	variables := fmt.Sprintf("%s=%d", seedVariable, f.World.Seed())
	if nth > 1 {
		variables += fmt.Sprintf(" %s=%d", exploreVariable, nth)
	}
	if f.World.only != nil {
		variables += " " + faultsVariable + "=" + shellWord(cmp.Or(strings.Join(f.Parts(), ","), "none"))
	}
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(test), "/", "$/^") + "$"
	path, tags := testedPackage()
	return fmt.Sprintf("%s go test -count=1 %s-run %s %s", variables, tags, shellWord(pattern), path)
}

// plainWord matches what a shell does not interpret.
var plainWord = regexp.MustCompile(`^[\w,=./:+-]+$`)

// shellWord quotes text for a shell, if it needs quotes.
func shellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// testedPackage returns the import path of the package that this process tests, and the flag
// with its build tags, if it has any.
func testedPackage() (path, tags string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ".", ""
	}
	for _, setting := range info.Settings {
		if setting.Key == "-tags" {
			tags = "-tags " + shellWord(setting.Value) + " "
		}
	}
	path = strings.TrimSuffix(info.Path, ".test") // a package main has none
	if path == "" || path == "command-line-arguments" {
		path = "."
	}
	return path, tags
}

// divergence describes where two runs with the same seed first differ.
func divergence(a, b *Failure) string {
	var text strings.Builder
	if d := b.World.core.Journal().Difference(); d != nil {
		fmt.Fprintf(&text, "first difference: at %v on host %s", d.At, d.Host)
		if d.Tasks != "" {
			fmt.Fprintf(&text, ", in task %s", d.Tasks)
		}
		if d.Line != "" {
			fmt.Fprintf(&text, ", at %s", d.Line)
		}
		fmt.Fprintf(&text, ": once %s, and once %s\n", d.Once, d.Now)
	}
	switch {
	case a.Err == nil && b.Err != nil:
		text.WriteString("the first run does not fail; the second fails with the error below\n")
	case a.Err != nil && b.Err == nil:
		text.WriteString("the first run fails with the error below; the second does not fail\n")
	}
	before, after := a.World.Trace(), b.World.Trace()
	n := 0
	for n < min(len(before), len(after)) && before[n] == after[n] {
		n++
	}
	end := func(t Trace) string {
		if n < len(t) {
			return t[n].String()
		}
		return "          the end"
	}
	if n < max(len(before), len(after)) {
		fmt.Fprintf(&text, "event %d of the trace:\n…\n%sthen once\n%s\nand once\n%s\n", n+1, before[max(0, n-5):n], end(before), end(after))
	} else {
		text.WriteString("their traces are the same\n")
	}
	text.WriteString(advice)
	return text.String()
}

// advice says what to do about runs that differ.
const advice = "draw random numbers from spindle.Rand(ctx), read the clock with spindle.Now(ctx), " +
	"sort the keys of a map before ranging over it, and make all state in setup or in the program"
