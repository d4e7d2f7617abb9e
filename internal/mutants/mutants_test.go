//go:build mutants

package mutants

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/http2sim"
	"github.com/spindleloop/spindle/internal/relaysim"
	"github.com/spindleloop/spindle/sim"
)

// mutant is a bug, and a program that should notice.
type mutant struct {
	name     string
	file     string // from the root of the module
	old, new string
	program  func(w *sim.World)
	events   int // the longest trace of the shrunk failure; 0 means mostEvents
}

var mutants = []mutant{
	{
		// A short read has emptied the socket, but the end may have come with
		// the bytes: no further edge tells of it.
		name:    "a lost wake-up",
		file:    "internal/sock/conn.go",
		old:     "case n < len(p) && c.kind == TCP && !c.is(hungUp|urgent):",
		new:     "case n < len(p) && c.kind == TCP && !c.is(urgent):",
		program: lateReader,
	},
	{
		// A closed connection forgets that its number is no longer its own.
		name: "a use of a reused fd",
		file: "internal/sock/conn.go",
		old: `func (c *Conn) Write(p []byte) (n int, err error) {
	if !c.Writable() {`,
		new: `func (c *Conn) Write(p []byte) (n int, err error) {
	if c.is(full | shut) {`,
		program: slowAnswers,
	},
	{
		name:    "a missing flush on close",
		file:    "transport/conn.go",
		old:     "if !c.is(hasGathered) && c.unsent == nil ||",
		new:     "if !c.is(hasGathered) ||",
		program: lastWords,
	},
	{
		// A value that arrives together with a cancellation is dropped.
		name:    "a cancel that swallows an item",
		file:    "cosync/waitqueue.go",
		old:     "err := waker.Park(ctx, what, w)\n",
		new:     "err := waker.Park(ctx, what, w)\n\tif err == nil {\n\t\terr = spindle.Checkpoint(ctx)\n\t}\n",
		program: impatientConsumer,
	},
	{
		name:    "a retry without idempotence",
		file:    "internal/simsamples/counter.go",
		old:     "if !r.seen[addition] || !r.c.fixed {",
		new:     "{",
		program: replicas,
	},
	{
		// A late reply reaches the next call in its slot.
		name:    "a reply to a reused id",
		file:    "relay/registry.go",
		old:     "|| r.slots[at].generation != uint32(id>>32) {\n\t\treturn nil\n\t}\n\tif w := r.slots[at].w; w != nil && w.req.Token == token {",
		new:     "{\n\t\treturn nil\n\t}\n\tif w := r.slots[at].w; w != nil {",
		program: relaysim.Calls,
		events:  1000,
	},
	{
		// A cancellation that overtakes its request is forgotten.
		name:    "a cancel before the start",
		file:    "relay/service.go",
		old:     "if s.revoked.add(key, s.clock.now(), e.Deadline) {",
		new:     "if false {",
		program: relaysim.Calls,
		events:  1000,
	},
	{
		// A reply and a time-out at the same moment both end the call.
		name:    "a race with a time-out",
		file:    "relay/ending.go",
		old:     "c.mu.Lock()\n\tif w.ended != waiting {",
		new:     "c.mu.Lock()\n\tif w.ended == expired {",
		program: relaysim.Calls,
		events:  1000,
	},
	{
		// A stream that was read never gets its window back.
		name:    "a window update that is dropped",
		file:    "internal/http2/send.go",
		old:     "c.Out = appendWindow(c.Out, s.id, int(s.owed))\n",
		new:     "",
		program: http2sim.Streams,
		events:  1000,
	},
	{
		// Requests that were sent before the peer knew are ignored.
		name:    "a GOAWAY that loses a stream",
		file:    "internal/http2/send.go",
		old:     "c.enter(connLeaving)\n",
		new:     "c.enter(connLeaving)\n\tc.enter(connLeft)\n\tc.farewell = c.lastPeer\n",
		program: http2sim.Streams,
		events:  1000,
	},
	{
		name:    "a priority inversion",
		file:    "web/http2_queue.go",
		old:     "s.Urgency < next.Urgency",
		new:     "s.Urgency > next.Urgency",
		program: http2sim.Streams,
		events:  1000,
	},
}

// The first seed that fails need not be the one with the shortest run, so more are tried.
const (
	mostSeeds  = 2000
	mostEvents = 10
	shortest   = 150
)

// huntVariable names the mutant that TestHunt is compiled with.
const huntVariable = "SPINDLE_MUTANT"

// TestMutants: without the mutant nothing is found, with it something is.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			if f := (sim.Search{Runs: 300}).Find(t.Context(), m.program); f != nil {
				t.Fatalf("it fails without a mutant:\n%s", f.Story(""))
			}
			cmd := exec.CommandContext(t.Context(), "go", "test", "-tags", "mutants", "-overlay", m.overlay(t), "-count=1", "-v", "-run", "^TestHunt$", ".")
			cmd.Env = append(os.Environ(), huntVariable+"="+m.name)
			said, err := cmd.CombinedOutput()
			found := huntSays.FindStringSubmatch(string(said))
			if found == nil {
				t.Fatalf("%v:\n%s", err, said)
			}
			seeds, _ := strconv.Atoi(found[1])
			events, _ := strconv.Atoi(found[2])
			t.Logf("%d seeds, %d events", seeds, events)
			if most := cmp.Or(m.events, mostEvents); seeds > mostSeeds || events > most {
				t.Errorf("%d seeds and %d events, want at most %d and %d:\n%s", seeds, events, mostSeeds, most, said)
			}
			if testing.Verbose() {
				t.Logf("%s", said)
			}
		})
	}
}

var huntSays = regexp.MustCompile(`found after (\d+) seeds, with (\d+) events`)

// TestHunt is played by TestMutants, with a mutant compiled in.
func TestHunt(t *testing.T) {
	for _, m := range mutants {
		if m.name != os.Getenv(huntVariable) {
			continue
		}
		search := sim.Search{Runs: mostSeeds}
		if m.events < 1000 {
			search.Shortest = shortest
		}
		f := search.Find(t.Context(), m.program)
		if f == nil {
			t.Fatal("not found")
		}
		fmt.Printf("found after %d seeds, with %d events\n%s", f.Runs, len(f.World.Trace()), f.Story(""))
	}
}

// overlay writes the mutated file, and the file that tells the compiler of it.
func (m mutant) overlay(t *testing.T) string {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, filepath.FromSlash(m.file))
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		t.Fatalf("%s has what is to be replaced %d times, want once:\n%s", m.file, n, m.old)
	}
	dir := t.TempDir()
	mutated := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(mutated, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	table, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, table, 0o644); err != nil {
		t.Fatal(err)
	}
	return overlay
}
