// Package pagetest_test looks at the page of package inspect with a real browser.
package pagetest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/loop"
)

func TestMain(m *testing.M) { leak.Main(m) }

// program is a program that is inspected.
type program struct {
	url string // of its page
	l   *loop.Loop
}

// hostile is a name that would run a script if it became markup.
const hostile = `<img src=x onerror="window.harmed=1"><script>window.harmed=1</script>`

// start runs tasks on a loop until the test ends, and serves their inspector. The function
// starts further tasks in the nursery.
func start(t *testing.T, o inspect.Options, more func(ctx context.Context, n *spindle.Nursery)) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan *loop.Loop), make(chan error, 1)
	go func() {
		ended <- spindle.Options{Loop: loop.Options{Name: "orders"}}.Run(ctx, func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.GoWith(spindle.TaskOptions{Name: "desk"}, desk)
				if more != nil {
					more(ctx, n)
				}
				ready <- spindle.LoopOf(ctx)
				return spindle.Sleep(ctx, time.Hour)
			})
		})
	}()
	var l *loop.Loop
	select {
	case l = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	s, err := inspect.Serve("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		<-ended
	})
	return &program{url: "http://" + s.Addr().String() + "/", l: l}
}

// desk has a nursery with tasks that wait.
func desk(ctx context.Context) error {
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		for i := range 3 {
			n.GoWith(spindle.TaskOptions{Name: fmt.Sprintf("order %d", i+1)}, func(ctx context.Context) error {
				return spindle.Sleep(ctx, time.Hour)
			})
		}
		return nil
	})
}

// named starts a task with a name.
func named(name string) func(context.Context, *spindle.Nursery) {
	return func(_ context.Context, n *spindle.Nursery) {
		n.GoWith(spindle.TaskOptions{Name: name}, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
	}
}

// block blocks the program's loop until release is called.
func (p *program) block(t *testing.T) (release func()) {
	t.Helper()
	done := make(chan struct{})
	if err := p.l.Post(func() { blockHere(done) }); err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() { close(done) })
	t.Cleanup(release)
	return release
}

//go:noinline
func blockHere(done chan struct{}) { <-done }

// many starts a lot of tasks.
func many(tasks int) func(context.Context, *spindle.Nursery) {
	return func(_ context.Context, n *spindle.Nursery) {
		for i := range tasks {
			n.GoWith(spindle.TaskOptions{Name: fmt.Sprintf("parcel %d", i)}, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
		}
	}
}

// deadlock starts two tasks that each hold a lock and wait for that of the other.
func deadlock(_ context.Context, n *spindle.Nursery) {
	var from, to cosync.Mutex
	transfer := func(first, second *cosync.Mutex) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := first.Lock(ctx); err != nil {
				return err
			}
			defer first.Unlock()
			if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
				return err
			}
			if err := second.Lock(ctx); err != nil {
				return err
			}
			second.Unlock()
			return nil
		}
	}
	n.GoWith(spindle.TaskOptions{Name: "transfer A to B"}, transfer(&from, &to))
	n.GoWith(spindle.TaskOptions{Name: "transfer B to A"}, transfer(&to, &from))
	n.GoWith(spindle.TaskOptions{Name: "statement of A"}, func(ctx context.Context) error {
		if err := spindle.Sleep(ctx, 2*time.Millisecond); err != nil {
			return err
		}
		return transfer(&from, &from)(ctx)
	})
}
