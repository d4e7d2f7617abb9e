package inspect_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/loop"
)

// blockedAfter is how long a turn lasts before the API must report it.
const blockedAfter = 100 * time.Millisecond

// showsBlocked blocks a task on a loop by calling block, which returns when release was
// called. Meanwhile it asks an inspector on a loop of its own. Every answer to a question
// that was asked blockedAfter after the block began must say that the loop is blocked, with
// a stack that contains frame. That holds however slow the machine is.
func showsBlocked(t *testing.T, block func(), release func(), frame string) {
	t.Helper()
	s, err := inspect.Serve("127.0.0.1:0", inspect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	began := make(chan time.Time, 1)
	launched := time.Now()
	over := make(chan error, 1)
	o := spindle.Options{Loop: loop.Options{Name: t.Name(), OnBlocked: func(loop.Blocked) {}}}
	go func() {
		over <- o.Run(t.Context(), func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.GoWith(spindle.TaskOptions{Name: "culprit"}, func(context.Context) error {
					began <- time.Now()
					block()
					return nil
				})
				return nil
			})
		})
	}()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	since := <-began
	for answers := 0; answers < 3; {
		passed := time.Since(since)
		l := askLoop(t, client, "http://"+s.Addr().String()+"/api/v1/loops", t.Name())
		if passed < blockedAfter && l.State != "blocked" {
			continue
		}
		if l.State == "blocked" && !strings.Contains(l.Stack, frame) && passed < time.Minute {
			continue // the stack of a moment between two calls, which is kept for a second
		}
		if answers++; answers == 1 {
			t.Logf("reported %v after the block began, as lasting %v", time.Since(since), time.Duration(l.StateForNS))
		}
		switch {
		case l.State != "blocked":
			t.Fatalf("asked %v after the block began, the loop is %s", passed, l.State)
		case !strings.Contains(l.Stack, frame) || !strings.Contains(l.Stack, "showsBlocked"):
			t.Fatalf("the stack has no %s:\n%s", frame, l.Stack)
		case l.LagNS < l.StateForNS || l.MaxLagNS < l.LagNS || l.TurnRate != 0 || l.CallbackRate != 0:
			t.Fatalf("blocked for %d ns it has the lag %d ns, at most %d ns, and %v turns and %v callbacks a second", l.StateForNS, l.LagNS, l.MaxLagNS, l.TurnRate, l.CallbackRate)
		case !strings.HasPrefix(l.Task, "main > culprit ("):
			t.Fatalf("the task is %q", l.Task)
		case time.Duration(l.StateForNS) < passed || time.Duration(l.StateForNS) > time.Since(launched)+time.Second:
			t.Fatalf("the block lasts %v, reported as %v", time.Since(since), time.Duration(l.StateForNS))
		}
	}
	release()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

func askLoop(t *testing.T, client *http.Client, url, name string) inspectapi.Loop {
	t.Helper()
	res, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var a inspectapi.LoopsAnswer
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(a.Loops, func(l inspectapi.Loop) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("no loop %s in %+v", name, a.Loops)
	}
	return a.Loops[i]
}

func TestLoopBlockedInSleepIsShown(t *testing.T) {
	var released atomic.Bool
	showsBlocked(t, func() {
		for !released.Load() {
			time.Sleep(20 * time.Millisecond)
		}
	}, func() { released.Store(true) }, "time.Sleep")
}

func TestLoopBlockedInMutexIsShown(t *testing.T) {
	var mu sync.Mutex
	mu.Lock()
	showsBlocked(t, func() {
		mu.Lock()
		defer mu.Unlock()
	}, mu.Unlock, "(*Mutex).Lock")
}

func TestLoopBlockedInComputationIsShown(t *testing.T) {
	var released atomic.Bool
	showsBlocked(t, func() { computes(&released) }, func() { released.Store(true) }, "inspect_test.computes")
}

//go:noinline
func computes(released *atomic.Bool) {
	for !released.Load() {
	}
}

func TestLoopBlockedInSystemCallIsShown(t *testing.T) {
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(ends[0])
	showsBlocked(t, func() {
		_, _ = syscall.Read(ends[0], make([]byte, 1))
	}, func() { _ = syscall.Close(ends[1]) }, "syscall.Read")
}

// blockUntil blocks the loop until c receives a value. Every second it begins a turn, because
// each turn is reported once, and what was reported may be how it began.
func blockUntil[T any](ctx context.Context, c <-chan T) error {
	for {
		select {
		case <-c:
			return nil
		case <-time.After(time.Second):
		}
		if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// The turns are remembered after they have ended.
func TestBlockedTurnsAreRemembered(t *testing.T) {
	reported := make(chan struct{}, 1)
	o := spindle.Options{Loop: loop.Options{Name: "remembers", Watchdog: 20 * time.Millisecond, OnBlocked: func(b loop.Blocked) {
		// On a busy machine other turns are reported too.
		if strings.HasPrefix(b.Task, "main (") && strings.Contains(string(b.Stack), "blockUntil") {
			select {
			case reported <- struct{}{}:
			default:
			}
		}
	}}}
	err := o.Run(t.Context(), func(ctx context.Context) error {
		if err := blockUntil(ctx, reported); err != nil {
			return err
		}
		_, err := spindle.Blocking(ctx, func() (struct{}, error) {
			for {
				a := get[inspectapi.BlockedAnswer](t, inspect.Options{}, "/api/v1/blocked?loop="+loopNamed(t, "remembers").ID)
				i := slices.IndexFunc(a.Blocked, func(b inspectapi.Blocked) bool {
					return strings.HasPrefix(b.Task, "main (") && strings.Contains(b.Stack, "blockUntil")
				})
				if i < 0 {
					t.Errorf("the turn is not among %+v", a.Blocked)
					return struct{}{}, nil
				}
				b := a.Blocked[i]
				if !strings.Contains(b.Line, "blocked_test.go") || b.ForNS < int64(20*time.Millisecond) {
					t.Errorf("remembered: %+v", b)
				}
				if b.Ended { // the watchdog notices the end a little later
					return struct{}{}, nil
				}
			}
		})
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
