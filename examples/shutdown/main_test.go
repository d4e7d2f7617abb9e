package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/sim"
)

// asProgram is the environment variable that makes the test binary run main, so that the
// test has a process to signal.
const asProgram = "SPINDLE_EXAMPLE_SHUTDOWN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	leak.Main(m)
}

var account = regexp.MustCompile(`(?s)closing, with (\d+) orders to do\n.*ended: (.*)\naccepted (\d+) orders, did (\d+)\n$`)

func TestASignalShutsDownInOrder(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			program := exec.CommandContext(t.Context(), os.Args[0])
			program.Env = append(os.Environ(), asProgram+"=1")
			var errs bytes.Buffer
			program.Stderr = &errs
			stdout, err := program.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := program.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(stdout)
			if first, err := lines.ReadString('\n'); first != "done: 1\n" {
				t.Errorf("it begins with %q, %v", first, err)
			}
			if err := program.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(lines)
			if err := errors.Join(err, program.Wait()); err != nil {
				t.Fatalf("%v; it prints\n%s%s", err, rest, errs.Bytes())
			}
			got := account.FindSubmatch(rest)
			if got == nil {
				t.Fatalf("it prints\n%s", rest)
			}
			if cause := string(got[2]); cause != sig.String()+" signal received" {
				t.Errorf("it ended by %q", cause)
			}
			if todo, in, done := string(got[1]), string(got[3]), string(got[4]); todo == "0" || in != done {
				t.Errorf("it had %s orders to do, accepted %s and did %s", todo, in, done)
			}
		})
	}
}

// simulated runs the shop under virtual time and cancels it after a while.
func simulated(t *testing.T, s *shop, open time.Duration) (ended time.Duration) {
	var out strings.Builder
	s.out = &out
	sim.Test(t, func(ctx context.Context) error {
		begin := spindle.Now(ctx)
		expired, err := spindle.MoveOnAfter(ctx, open, s.open)
		if !expired || err != nil {
			t.Errorf("expired %v, error %v", expired, err)
		}
		ended = spindle.Now(ctx).Sub(begin)
		return nil
	})
	if want := fmt.Sprint("done: ", s.done, "\n"); !strings.HasSuffix(out.String(), want) {
		t.Errorf("it prints\n%swant %q at the end", out.String(), want)
	}
	return ended
}

func TestRemainingOrdersAreDone(t *testing.T) {
	s := &shop{pace: time.Second, grace: time.Minute}
	ended := simulated(t, s, 10*time.Second+time.Second/2)
	// Ten are done, one is under way, eight wait.
	if s.accepted != 19 || s.done != 19 || ended != 19*time.Second {
		t.Errorf("accepted %d, did %d, ended after %v", s.accepted, s.done, ended)
	}
}

func TestGraceIsLimited(t *testing.T) {
	s := &shop{pace: time.Second, grace: 4*time.Second + time.Second/2}
	ended := simulated(t, s, 10*time.Second+time.Second/2)
	// The order under way ends at 11 s. Grace lasts until 15.5 s, and the order that
	// has begun by then until 16 s.
	if s.accepted != 19 || s.done != 16 || ended != 16*time.Second {
		t.Errorf("accepted %d, did %d, ended after %v", s.accepted, s.done, ended)
	}
}
