package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
)

// leavePageOpen does what an open page does until ctx ends: it receives events, and asks for the
// tasks once in a second and for another view every two seconds of the inspector's clock.
func leavePageOpen(ctx context.Context, t *testing.T, url string) (events *atomic.Int64) {
	t.Helper()
	events = new(atomic.Int64)
	client := &http.Client{Transport: &http.Transport{}}
	read := func(path string, to io.Writer) {
		r, err := http.NewRequestWithContext(ctx, "GET", url+"api/v1/"+path, nil)
		if err != nil {
			t.Error(err)
			return
		}
		response, err := client.Do(r)
		if err == nil {
			if response.StatusCode != http.StatusOK {
				err = errors.New(response.Status)
			} else {
				_, err = io.Copy(to, response.Body)
			}
			response.Body.Close()
		}
		if err != nil && ctx.Err() == nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	var all sync.WaitGroup
	all.Go(func() { read("events?every=250", counting{events}) })
	all.Go(func() {
		others := []string{"waits", "sockets", "requests", "sync", "blocked", "ended"}
		for n := 0; ctx.Err() == nil; n++ {
			at := inspect.Now()
			read("tasks?sort=tree&limit=200", io.Discard)
			if n%2 == 0 {
				read(others[n/2%len(others)], io.Discard)
			}
			until.Tried(func() bool { return ctx.Err() != nil || inspect.Now() >= at+time.Second })
		}
	})
	t.Cleanup(func() { all.Wait(); client.CloseIdleConnections() })
	return events
}

// counting counts writes.
type counting struct{ n *atomic.Int64 }

func (c counting) Write(p []byte) (int, error) {
	c.n.Add(1)
	return len(p), nil
}

// TestPageLeftOpenForAnHour leaves a page open for an hour of the inspector's clock, which runs
// a thousand times faster, while the program starts and ends tasks. The memory of the process
// does not grow after the first ten minutes, and the loop has only done its work and answered.
// Unless tests do all of their work, it is the first minutes of that hour.
func TestPageLeftOpenForAnHour(t *testing.T) {
	open := time.Duration(short.Seeds(60)) * time.Minute
	ctx, end := context.WithCancel(t.Context())
	ready, ended := make(chan *loop.Loop), make(chan error, 1)
	var started atomic.Int64
	go func() {
		ended <- spindle.Options{Loop: loop.Options{Name: "open for an hour"}}.Run(ctx, func(ctx context.Context) error {
			ready <- spindle.LoopOf(ctx)
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				for i := 0; ; i++ {
					started.Add(1)
					n.GoWith(spindle.TaskOptions{Name: fmt.Sprint("short ", i)}, func(ctx context.Context) error { return spindle.Sleep(ctx, 5*time.Millisecond) })
					if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
						return err
					}
				}
			})
		})
	}()
	l := <-ready
	s, err := inspect.Serve("127.0.0.1:0", inspect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end()
		<-ended
		s.Close()
	})
	slow := inspect.Faster(1000)
	t.Cleanup(slow)
	events := leavePageOpen(ctx, t, "http://"+s.Addr().String()+"/")
	posted := func() (n uint64) {
		read := make(chan uint64)
		if err := l.Post(func() { read <- l.Stats().Posted }); err != nil {
			t.Fatal(err)
		}
		return <-read
	}
	began := inspect.Now()
	passed := func(d time.Duration) (heap uint64, goroutines int) {
		until.Tried(func() bool { return inspect.Now() >= began+d })
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	heap, goroutines := passed(open / 6)
	before := posted()
	laterHeap, laterGoroutines := passed(open)
	functions := posted() - before
	t.Logf("%d events, %d tasks, %d functions posted; heap %d, then %d bytes; %d, then %d goroutines", events.Load(), started.Load(), functions, heap, laterHeap, goroutines, laterGoroutines)
	if !until.Tried(func() bool { return events.Load() >= 20 }) { // on a busy machine they come later
		t.Errorf("only %d events came", events.Load())
	}
	if grown := int64(laterHeap) - int64(heap); grown > 8<<20 {
		t.Errorf("the heap has grown by %d bytes, from %d", grown, heap)
	}
	if laterGoroutines > goroutines+20 {
		t.Errorf("there were %d goroutines, and then %d", goroutines, laterGoroutines)
	}
	// A question is at most a slice for vitals, tasks and sockets each, and one for accounting. Each
	// kind is asked at most four times in a second.
	if most := uint64(4 * 4 * 3000); functions > most {
		t.Errorf("%d functions were posted to the loop, want at most %d", functions, most)
	}
}
