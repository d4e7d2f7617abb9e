package loop_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
)

func newGroup(t *testing.T, n int) *loop.Group {
	t.Helper()
	g, err := loop.NewGroup(n, loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func TestGroupSpreadsWork(t *testing.T) {
	g := newGroup(t, 3)
	const each = 100
	var all sync.WaitGroup
	var mu sync.Mutex
	count := map[*loop.Loop]int{}
	all.Add(3 * each)
	ended := make(chan error)
	for range 3 * each { // before they run: every post counts as load
		if err := g.Go(func(l *loop.Loop) {
			l.CallSoon(func() { // would panic on another loop's goroutine
				mu.Lock()
				count[l]++
				mu.Unlock()
				all.Done()
			})
		}); err != nil {
			t.Fatal(err)
		}
	}
	go func() { ended <- g.Run(context.Background()) }()
	all.Wait()
	g.Stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for _, l := range g.Loops() {
		if count[l] != each {
			t.Errorf("a loop ran %d, want %d", count[l], each)
		}
	}
}

func TestGroupPrefersTheLeastLoaded(t *testing.T) {
	g := newGroup(t, 2)
	fds := socketpair(t)
	busy, free := g.Loops()[0], g.Loops()[1]
	if err := busy.AddReader(fds[0], func() {}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var got *loop.Loop
		if err := g.Go(func(l *loop.Loop) { got = l }); err != nil {
			t.Fatal(err)
		}
		free.RunOnce(0)
		if got != free {
			t.Fatal("work went to the loop with more load")
		}
	}
}

func TestGroupEndsWithItsContext(t *testing.T) {
	g := newGroup(t, 0)
	if n := len(g.Loops()); n != runtime.GOMAXPROCS(0) {
		t.Errorf("%d loops", n)
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	g.Go(func(*loop.Loop) { cancel(cause) })
	if err := g.Run(ctx); err != cause {
		t.Fatalf("Run: %v", err)
	}
	// The group can run again.
	g.Go(func(*loop.Loop) { g.Stop() })
	if err := g.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestGroupFailsTogether(t *testing.T) {
	g := newGroup(t, 3)
	g.Go(func(*loop.Loop) { explode() })
	checkCaught(t, g.Run(context.Background()), "boom", "explode")
}

func TestGroupRunTwiceIsRefused(t *testing.T) {
	g := newGroup(t, 2)
	g.Go(func(*loop.Loop) {
		wantPanic(t, "Group.Run", func() { g.Run(context.Background()) })
		g.Stop()
	})
	if err := g.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestGroupAfterClose(t *testing.T) {
	g := newGroup(t, 2)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	wantPanic(t, "Group.Run", func() { g.Run(context.Background()) })
	if err := g.Go(func(*loop.Loop) {}); err != loop.ErrClosed {
		t.Errorf("Go: %v", err)
	}
	if err := g.Close(); !errors.Is(err, loop.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
}

// TestStoppedLoopEndsTheGroup: otherwise Go would post work to it that never runs.
func TestStoppedLoopEndsTheGroup(t *testing.T) {
	g := newGroup(t, 3)
	for range 2 {
		g.Go(func(l *loop.Loop) { l.Stop() })
		if err := g.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGroupStopEndsOneRun: Stop during a Run ends only that one, even if the first loop has
// ended already and others have not.
func TestGroupStopEndsOneRun(t *testing.T) {
	g := newGroup(t, 2)
	first, second := g.Loops()[0], g.Loops()[1]
	firstRuns := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	first.CallSoon(func() { close(firstRuns) })
	second.CallSoon(func() {
		<-firstRuns
		cancel()
		until.Holds(t, func() bool { return !first.Internal().Running() })
		g.Stop()
	})
	if err := g.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the first Run returned %v", err)
	}
	ran := false
	first.CallSoon(func() {
		ran = true
		g.Stop()
	})
	if err := g.Run(context.Background()); err != nil || !ran {
		t.Errorf("the second Run returned %v; its callback ran: %v", err, ran)
	}
}

func TestGroupCloseIsAllOrNothing(t *testing.T) {
	g := newGroup(t, 2)
	one := g.Loops()[1]
	one.CallSoon(func() {
		if err := g.Close(); fmt.Sprint(err) != "loop: running; Stop it and wait for Run to return" {
			t.Errorf("close while one runs: %v", err)
		}
		one.Stop()
	})
	run(t, one)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFailedNewGroupClosesItsLoops runs out of descriptors half-way.
func TestFailedNewGroupClosesItsLoops(t *testing.T) {
	lowest := func() int {
		fd, err := syscall.Dup(0)
		if err != nil {
			t.Fatal(err)
		}
		syscall.Close(fd)
		return fd
	}
	before := lowest()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = 64
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	_, err := loop.NewGroup(100, loop.Options{})
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, syscall.EMFILE) {
		t.Errorf("NewGroup: %v", err)
	}
	if after := lowest(); after != before {
		t.Errorf("the lowest free descriptor was %d and is %d", before, after)
	}
}

// TestGroupCountsEveryLoad gives one loop load of each kind.
func TestGroupCountsEveryLoad(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for name, addLoad := range map[string]func(l *loop.Loop){
		"post": func(l *loop.Loop) { l.Post(func() {}) },
		"job": func(l *loop.Loop) {
			loop.Offload(l, func() (int, error) { <-release; return 0, nil }, func(int, error) {})
		},
		"descriptor": func(l *loop.Loop) { l.AddReader(socketpair(t)[0], func() {}) },
	} {
		g := newGroup(t, 2)
		addLoad(g.Loops()[0])
		for range 4 {
			var got *loop.Loop
			g.Go(func(l *loop.Loop) { got = l })
			if once(t, g.Loops()[1]); got != g.Loops()[1] {
				t.Errorf("%s does not count as load", name)
				break
			}
		}
	}
}

// TestGroupTakesTurnsAmongEquals: all loops are idle whenever Go is called.
func TestGroupTakesTurnsAmongEquals(t *testing.T) {
	g := newGroup(t, 3)
	count := map[*loop.Loop]int{}
	for range 6 {
		g.Go(func(l *loop.Loop) { count[l]++ })
		for _, l := range g.Loops() {
			once(t, l)
		}
	}
	for i, l := range g.Loops() {
		if count[l] != 2 {
			t.Errorf("loop %d ran %d of 6", i, count[l])
		}
	}
}

// The loops of a group have its name and a number, a single loop only the name.
func TestGroupNamesItsLoops(t *testing.T) {
	for n, want := range map[int]string{1: "web", 3: "web 3"} {
		g, err := loop.NewGroup(n, loop.Options{Name: "web"})
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Loops()[n-1].Internal().Name(); got != want {
			t.Errorf("the last of %d loops is called %q, want %q", n, got, want)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}
