package sim_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/sim"
)

// insist repeats ask until it has an answer.
func insist(ctx context.Context, address string, messages ...string) error {
	for {
		err := spindle.FailAfter(ctx, 3*time.Second, func(ctx context.Context) error {
			return ask(ctx, address, messages...)
		})
		if err == nil {
			return nil
		}
		if err := spindle.Sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// siege is an echo server and clients with every kind of fault.
func siege(w *sim.World) {
	server := w.Host("server")
	server.Serve(serveEcho(":7"))
	hosts := []*sim.Host{server}
	for i := range 3 {
		client := w.Host(fmt.Sprint("client", i))
		hosts = append(hosts, client)
		answered := false
		client.Go(func(ctx context.Context) error {
			for range 20 {
				if err := insist(ctx, "server:7", "hello", strings.Repeat("x", 5000)); err != nil {
					return err
				}
				if err := spindle.Sleep(ctx, time.Second); err != nil {
					return err
				}
			}
			answered = true
			return nil
		})
		w.Eventually(client.Name()+" has been answered", 5*time.Minute, func() bool { return answered })
	}
	w.Latency = sim.LongTail(5 * time.Millisecond)
	w.Faults = sim.Faults{
		For: 30 * time.Second, Lasting: 2 * time.Second,
		Loss: 0.02, Dribble: 0.2, Spurious: 0.05,
		PartitionEvery: 2 * time.Second, SlowEvery: 5 * time.Second, CrashEvery: 5 * time.Second, PauseEvery: 5 * time.Second, ClockEvery: 10 * time.Second,
		Hosts: hosts,
	}
}

func TestExploreASiege(t *testing.T) { sim.Explore(t, fewer(50), siege) }

// fragile is a program that fails after a crash and a timeout, but not after one of them
// alone.
func fragile(w *sim.World) {
	server, client := w.Host("server"), w.Host("client")
	begins := 0
	server.Serve(func(ctx context.Context) error {
		begins++
		return serveEcho(":7")(ctx)
	})
	client.Go(func(ctx context.Context) error {
		parted := false
		for range 100 {
			up, before := server.Up(), begins
			err := spindle.FailAfter(ctx, 500*time.Millisecond, func(ctx context.Context) error { return ask(ctx, "server:7", "hello") })
			parted = parted || errors.Is(err, context.DeadlineExceeded) && up && server.Up() && begins == before
			if parted && begins > 1 {
				return errors.New("both faults have occurred")
			}
			if err := spindle.Sleep(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	})
	w.Faults = sim.Faults{
		For: 10 * time.Second, Lasting: time.Second, Dribble: 0.1, Spurious: 0.1,
		PartitionEvery: time.Second, CrashEvery: time.Second, PauseEvery: time.Second, ClockEvery: time.Second,
		Hosts: []*sim.Host{server},
	}
}

var againCommand = regexp.MustCompile(`again: (SPINDLE_SEED=(\d+) .*)go test -count=1 (?:-tags \S+ )?-run (.+) github.com/spindleloop/spindle/sim\s`)

// crowded fails in worlds with few clients only, which are rare.
func crowded(w *sim.World) {
	clients := w.Amount("clients", 40)
	w.Host("host").Go(func(context.Context) error {
		if clients < 20 {
			return fmt.Errorf("%d clients are too few", clients)
		}
		return nil
	})
}

// TestExploreReportsAReplayCommand runs failing explorations in a child process, and then
// the replay commands of their reports. The seed alone fails too, whatever the length of the
// search that has found it.
func TestExploreReportsAReplayCommand(t *testing.T) {
	short.Computes(t)
	for name, test := range map[string]struct {
		explore func(t *testing.T)
		want    string // the variables of the command
	}{
		"faults":                           {func(t *testing.T) { sim.Explore(t, 20, fragile) }, `^SPINDLE_SEED=\d+ SPINDLE_FAULTS=\d+,\d+ $`},
		"amounts":                          {func(t *testing.T) { sim.Explore(t, 500, overload) }, `SPINDLE_FAULTS=clients=4,asks=6 $`},
		"a small world":                    {func(t *testing.T) { sim.Explore(t, 500, crowded) }, `SPINDLE_FAULTS=clients=1 $`},
		"a small world of a parallel test": {func(t *testing.T) { t.Parallel(); sim.Explore(t, 500, crowded) }, `SPINDLE_FAULTS=clients=1 $`},
		"no parts": {func(t *testing.T) {
			sim.Explore(t, 20, func(w *sim.World) {
				w.Host("host").Go(func(context.Context) error { return errors.New("always") })
			})
		}, `^SPINDLE_SEED=0 $`},
		"no part that it needs": {func(t *testing.T) {
			sim.Explore(t, 20, func(w *sim.World) {
				w.Host("host").Go(func(context.Context) error { return errors.New("always") })
				w.Faults = sim.Faults{Loss: 0.5, PauseEvery: time.Second}
			})
		}, `^SPINDLE_SEED=0 SPINDLE_FAULTS=none $`},
		"the second exploration": {func(t *testing.T) {
			sim.Explore(t, 5, func(w *sim.World) { w.Amount("others", 3) })
			sim.Explore(t, 500, crowded)
		}, `^SPINDLE_SEED=\d+ SPINDLE_EXPLORE=2 SPINDLE_FAULTS=clients=1 $`},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(childSays) != "" {
				test.explore(t)
				return
			}
			dir := t.TempDir()
			child := func(command string) string {
				cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
				cmd.Env = append(os.Environ(), childSays+"=1", "TMPDIR="+dir, "PROGRAM="+os.Args[0])
				text, err := cmd.CombinedOutput()
				if err == nil {
					t.Fatalf("%s passes:\n%s", command, text)
				}
				return string(text)
			}
			first := child(`"$PROGRAM" -test.run '^` + strings.ReplaceAll(t.Name(), "/", "$/^") + `$'`)
			again := againCommand.FindStringSubmatch(first)
			if again == nil || !regexp.MustCompile(test.want).MatchString(again[1]) {
				t.Fatalf("the replay command does not match %q:\n%s", test.want, first)
			}
			run := `"$PROGRAM" -test.run ` + again[3]
			story := func(out string) string {
				_, story, _ := strings.Cut(out, "sim: seed "+again[2]+" fails")
				story, _, _ = strings.Cut(story, "--- FAIL")
				return story
			}
			if second := child(again[1] + run); story(first) == "" || story(first) != story(second) {
				t.Errorf("first:\n%s\nagain:\n%s", first, second)
			}
			if alone := child("SPINDLE_SEED=" + again[2] + " " + run); story(alone) == "" {
				t.Errorf("the seed alone:\n%s", alone)
			}
			_, page, written := strings.Cut(first, "page: ")
			file, _, _ := strings.Cut(page, "\n")
			text, err := os.ReadFile(file)
			if written != (name == "faults") || written && (err != nil || filepath.Dir(file) != dir || !strings.Contains(string(text), "both faults have occurred") || !strings.Contains(string(text), `"Nearest":"`)) {
				t.Errorf("the page %s: %v, %d bytes:\n%s", file, err, len(text), first)
			}
		})
	}
}

// TestExploreReportsUnknownParts: a replay with parts that the world does not have fails, in
// a child process.
func TestExploreReportsUnknownParts(t *testing.T) {
	if os.Getenv(childSays) != "" {
		sim.Explore(t, 20, func(w *sim.World) { w.Amount("clients", 5) })
		return
	}
	for faults, want := range map[string]string{
		"loss,clients=3":  "",
		"99,clints=3,los": `no such fault or amount: "99", "clints=3", "los"`,
		"clients=6":       `no such fault or amount: "clients=6" (want 1 to 5)`,
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), childSays+"=1", "SPINDLE_SEED=7", "SPINDLE_FAULTS="+faults)
		text, err := cmd.CombinedOutput()
		if (err != nil) != (want != "") || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, want %q:\n%s", faults, err, want, text)
		}
	}
}
