package pyapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/workerproc"
	"github.com/spindleloop/spindle/relay"
)

// worker is a process that serves. It speaks HTTP on a Unix socket. Its standard input and
// output carry frames of package relay: requests, which are calls or operations, and their
// answers.
type worker struct {
	a       *App
	leave   func() // called when the process has served as many requests as it may
	process *workerproc.Process
	socket  string
	out     *cosync.Inbox[[]byte] // frames for the process
	late    *cosync.Inbox[[]byte] // small frames that wait for a place in out

	// guarded by a.mu
	serving   bool // it is ready
	leaving   bool // it takes no more requests, and will end
	exited    bool
	suspected bool // it may have crashed, and was sent a ping
	active    int  // requests and calls that run, without upgraded connections
	calls     map[uint64]*cosync.Inbox[answer]
	lastID    uint64
	idle      []*conn // connections to use again, the last one first
}

// answer is the end of a call.
type answer struct {
	body []byte
	err  error
}

// opHeader is the header of a frame that is an operation, and not a call.
const (
	opHeader = "op"
	opStop   = "stop"   // finish, and end
	opCancel = "cancel" // end now
	opPing   = "ping"   // answer with a ping
	opLeave  = "leave"  // from the process: replace me
)

func newWorker(a *App, process *workerproc.Process, socket string) *worker {
	return &worker{
		a: a, process: process, socket: socket,
		out: cosync.NewInbox[[]byte](64), late: cosync.NewInbox[[]byte](math.MaxInt),
		calls: map[uint64]*cosync.Inbox[answer]{},
	}
}

// waitReady waits until the worker serves. It fails with a *StartError if it does not.
func (w *worker) waitReady(ctx context.Context, limit time.Duration) error {
	var frame *relay.Envelope
	err := spindle.FailAfter(ctx, limit, func(ctx context.Context) (err error) {
		frame, err = relay.ReadFrame(w.process.Out, 1<<20)
		return err
	})
	switch {
	case err == nil && frame.Kind == relay.KindReply:
		return nil
	case err == nil:
		reason, ok := reasons[frame.Headers["reason"]]
		if !ok {
			reason = ErrExited
		}
		return &StartError{Reason: reason, Text: string(frame.Body)}
	case errors.Is(err, spindle.ErrTimeout):
		return &StartError{Reason: ErrStartTimeout, Text: fmt.Sprintf("it took longer than %v", limit)}
	case errors.As(err, new(*spindle.Canceled)):
		return err
	}
	exit := w.waitExit(ctx)
	if exited := (*exec.ExitError)(nil); errors.As(exit, &exited) && exited.ExitCode() == notInstalled {
		return &StartError{Reason: ErrNotInstalled}
	}
	return &StartError{Reason: ErrExited, Text: fmt.Sprintf("%v; its standard error may have the reason", exit)}
}

// waitExit waits a moment for the exit of a process that has closed its output, and kills it
// otherwise. It returns how the process has ended.
func (w *worker) waitExit(ctx context.Context) error {
	expired, exit := spindle.MoveOnAfter(ctx, time.Second, w.process.Wait)
	if expired {
		w.process.KillGroup()
		exit = w.process.Wait(ctx)
	}
	return exit
}

// serve exchanges frames with the process until it ends, and returns how it has ended.
func (w *worker) serve(ctx context.Context) error {
	defer w.end()
	defer w.a.remove(w)
	err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		defer n.Scope().Cancel(nil)
		n.Go(func(ctx context.Context) error {
			for frame, err := range w.out.All(ctx) {
				if err != nil {
					return err
				}
				if _, err := w.process.Stdin.Write(frame); err != nil {
					return nil // it ends
				}
			}
			return nil
		})
		n.Go(func(ctx context.Context) error {
			for frame, err := range w.late.All(ctx) {
				if err != nil {
					return err
				}
				if err := w.out.Put(ctx, frame); err != nil {
					return err
				}
			}
			return nil
		})
		return w.read()
	})
	if errors.As(err, new(*spindle.Canceled)) {
		return err
	}
	if w.a.withdraw(w); w.a.isLeaving(w) {
		return w.process.Wait(ctx) // for as long as drain allows
	}
	if err == io.EOF {
		err = nil
	}
	return errors.Join(err, w.waitExit(ctx))
}

// read passes answers to their calls until the process closes its output.
func (w *worker) read() error {
	for {
		e, err := relay.ReadFrame(w.process.Out, w.a.maxCallBytes()+1<<20)
		if err != nil {
			return err
		}
		switch e.Headers[opHeader] {
		case opLeave:
			w.leave()
			continue
		case opPing:
			w.a.trust(w)
			continue
		}
		w.a.mu.Lock()
		waiting := w.calls[e.ID]
		delete(w.calls, e.ID)
		w.a.mu.Unlock()
		if waiting == nil {
			continue // the call was cancelled
		}
		a := answer{body: e.Body}
		if e.Kind == relay.KindFailure {
			a = answer{err: errorOf(e.Body)}
		}
		_ = waiting.TryPut(a)
	}
}

// errorOf returns the error in a failure.
func errorOf(body []byte) error {
	var failure struct{ Type, Message, Traceback, Reason string }
	if err := json.Unmarshal(body, &failure); err != nil {
		return fmt.Errorf("pyapp: malformed failure: %w", err)
	}
	return &Error{Type: failure.Type, Message: failure.Message, Traceback: failure.Traceback, reason: reasons[failure.Reason]}
}

// end ends the process. Loop goroutine only.
func (w *worker) end() {
	w.out.Close()
	w.process.End()
}

// send sends an operation.
func (w *worker) send(op string) {
	w.post(&relay.Envelope{Kind: relay.KindRequest, Headers: map[string]string{opHeader: op}})
}

// post sends a small frame without waiting for the process. If out is full, the frame waits
// until those before it are sent: a cancellation must not overtake its call.
func (w *worker) post(e *relay.Envelope) {
	frame, err := relay.AppendFrame(nil, e, time.Time{})
	if err != nil {
		panic("pyapp: " + err.Error()) // a small frame always fits
	}
	if w.out.TryPut(frame) == cosync.ErrWouldBlock {
		_ = w.late.TryPut(frame) // it always fits
	}
}

// kill kills the process, from any goroutine.
func (w *worker) kill() {
	if l := w.a.loop(); l != nil {
		_ = l.PostDroppable(w.process.KillGroup) // a loop that has ended has no processes
	}
}
