package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/spindleloop/spindle/internal/inspectapi"
)

// Dump writes the task tree of every loop of the process to w, with the stack of a loop that
// is blocked. Any goroutine may call it that is not on a loop. Of a loop that is blocked it
// writes the tasks that were last seen, if an inspector has looked at it before.
func Dump(w io.Writer) error {
	var b strings.Builder
	loops := readLoops()
	f, how := readForest("")
	tasks := f.tasks(f.ordered(&query{sort: "tree"}))
	for i := range loops {
		l := &loops[i]
		fmt.Fprintf(&b, "loop %s (%s): %s for %v, %d turns, %d timers, %d descriptors\n",
			l.ID, printable(l.Name), l.State, time.Duration(l.StateForNS).Round(time.Millisecond), l.Turns, l.Timers, l.FDs)
		if l.Task != "" {
			fmt.Fprintf(&b, "blocked by %s\n", printable(l.Task))
		}
		if l.Stack != "" {
			fmt.Fprintf(&b, "%s\n", l.Stack)
		}
		for _, h := range how {
			if h.ID == l.ID && h.Stale {
				fmt.Fprintf(&b, "it does not answer; its tasks %v ago:\n", time.Duration(h.AgeNS).Round(time.Millisecond))
			}
		}
		for i := range tasks {
			if tasks[i].Loop == l.ID {
				dumpTask(&b, &tasks[i])
			}
		}
		b.WriteByte('\n')
	}
	for _, c := range f.cycles.paths {
		d := f.graph().detail(c)
		verdict := "deadlock"
		if d.DeadlineLeftNS != nil {
			verdict = fmt.Sprintf("cycle, until a deadline in %v", time.Duration(*d.DeadlineLeftNS).Round(time.Millisecond))
		}
		fmt.Fprintf(&b, "%s: %s\n", verdict, printable(d.Text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// dumpTask writes a line for a task.
func dumpTask(b *strings.Builder, t *inspectapi.Task) {
	fmt.Fprintf(b, "%s%s %s (%s): %s", strings.Repeat("  ", t.Depth+1), t.ID, printable(t.Name), t.Function, t.State)
	if t.WaitsFor != "" {
		fmt.Fprintf(b, " for %s (%v)", printable(t.WaitsFor), time.Duration(t.WaitsNS).Round(time.Millisecond))
	}
	if t.HeldByName != "" {
		fmt.Fprintf(b, ", held by %s", printable(t.HeldByName))
	}
	if t.CancelReason != "" {
		fmt.Fprintf(b, ", %s", printable(t.CancelReason))
	}
	if t.Started != "" {
		fmt.Fprintf(b, ", started at %s", t.Started)
	}
	b.WriteByte('\n')
}

// printable escapes what would begin another line or control a terminal. Names and reasons may
// come from the input of the program.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// DumpOnQuit makes SIGQUIT print the task tree of every loop to standard error, after the
// stacks of all goroutines that Go prints. The process then exits with status 2, as it does
// without DumpOnQuit. Calling stop undoes it.
func DumpOnQuit() (stop func()) {
	quit := make(chan os.Signal, 1)
	ended := make(chan struct{})
	signal.Notify(quit, syscall.SIGQUIT)
	background(func() {
		select {
		case <-quit:
		case <-ended:
			return
		}
		buf := make([]byte, 64<<20)
		fmt.Fprintf(os.Stderr, "SIGQUIT: quit\n\n%s\n\n", buf[:runtime.Stack(buf, true)])
		_ = Dump(os.Stderr)
		os.Exit(2)
	})
	return sync.OnceFunc(func() {
		signal.Stop(quit)
		close(ended)
	})
}

// Var returns the state of all loops as a variable for package expvar:
//
//	expvar.Publish("spindle", inspect.Var())
//
// This package does not import expvar, which would publish the variables of the program on
// http.DefaultServeMux.
func Var() fmt.Stringer { return variable{} }

type variable struct{}

// String returns the loops as JSON, as /api/v1/loops has them.
func (variable) String() string {
	text, err := json.Marshal(readLoops())
	if err != nil {
		return "null"
	}
	return string(text)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
