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

var againCommand = regexp.MustCompile(`again: SPINDLE_SEED=(\d+) SPINDLE_FAULTS=(\S+) go test -count=1 -run '(\S+)' github.com/spindleloop/spindle/sim\s`)

// TestExploreReportsAReplayCommand runs a failing exploration in a child process, and then
// the replay command of its report.
func TestExploreReportsAReplayCommand(t *testing.T) {
	if os.Getenv(childSays) != "" {
		sim.Explore(t, 20, fragile)
		return
	}
	dir := t.TempDir()
	playChild := func(run string, env ...string) string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run="+run)
		cmd.Env = append(append(os.Environ(), childSays+"=1", "TMPDIR="+dir), env...)
		text, err := cmd.CombinedOutput()
		if err == nil {
			t.Fatalf("the child passes:\n%s", text)
		}
		return string(text)
	}
	first := playChild("^" + t.Name() + "$")
	command := againCommand.FindStringSubmatch(first)
	if command == nil {
		t.Fatalf("no replay command:\n%s", first)
	}
	picture, err := os.ReadFile(filepath.Join(dir, "spindle-"+t.Name()+".svg"))
	if err != nil || !strings.Contains(first, "picture: "+dir) || !strings.Contains(string(picture), "both faults have occurred") {
		t.Errorf("the picture: %v, %d bytes:\n%s", err, len(picture), first)
	}
	if faults := strings.Split(command[2], ","); len(faults) != 2 {
		t.Errorf("the report has %d faults, want 2:\n%s", len(faults), first)
	}
	second := playChild(command[3], "SPINDLE_SEED="+command[1], "SPINDLE_FAULTS="+command[2])
	tell := func(out string) string {
		_, story, _ := strings.Cut(out, "sim: seed "+command[1]+" fails")
		story, _, _ = strings.Cut(story, "--- FAIL")
		return story
	}
	if tell(first) == "" || tell(first) != tell(second) {
		t.Errorf("first:\n%s\nagain:\n%s", tell(first), tell(second))
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
