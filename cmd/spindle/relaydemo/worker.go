package relaydemo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spindleloop/spindle/relay"
)

// concurrency is how many calls a worker handles at a time.
const concurrency = 4

// worker is a relay.Worker that can be killed and started again.
type worker struct {
	d *Demo

	mu     sync.Mutex
	kept   relay.WorkerStats // of previous starts; guarded by mu, as all below
	now    *relay.Worker     // nil if it does not run
	cancel context.CancelFunc
	ended  chan struct{}
}

type workerState struct {
	Running bool
	Busy    int
	Done    uint64
	Stopped uint64 // handlers that ended with an error: by a cancel or a kill
}

// start starts the worker, unless it runs. It returns when the worker serves.
func (w *worker) start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now != nil {
		return nil
	}
	bus, err := w.d.o.Connect(ctx)
	if err != nil {
		return err
	}
	serving, cancel := context.WithCancel(context.Background())
	now, ready, ended := relay.NewWorker(bus), make(chan struct{}), make(chan struct{})
	var failure error // of Serve; read after ended
	go func() {
		defer close(ended)
		failure = now.Serve(serving, w.d.subject, work, relay.ServeOptions{
			Concurrency: concurrency, Ready: func() { close(ready) },
			Drain: time.Millisecond, // it is killed, so it finishes nothing
		})
		bus.Close()
	}()
	select {
	case <-ready:
	case <-ended:
		cancel()
		return failure
	}
	w.now, w.cancel, w.ended = now, cancel, ended
	return nil
}

// kill ends the worker, if it runs. The calls that it handles fail.
func (w *worker) kill() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == nil {
		return
	}
	w.cancel()
	<-w.ended
	s := w.now.Stats()
	w.kept.Finished += s.Finished
	w.kept.Failed += s.Failed
	w.now = nil
}

func (w *worker) state() workerState {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := workerState{Done: w.kept.Finished - w.kept.Failed, Stopped: w.kept.Failed}
	if w.now != nil {
		now := w.now.Stats()
		s.Running, s.Busy = true, now.Running
		s.Done += now.Finished - now.Failed
		s.Stopped += now.Failed
	}
	return s
}

// work is the handler. It blocks its goroutine, as a query to a database would.
func work(ctx context.Context, r *relay.Request) ([]byte, error) {
	d, err := workTime(r.Headers["Http-Query"])
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return fmt.Appendf(nil, "worked for %v\n", d), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
