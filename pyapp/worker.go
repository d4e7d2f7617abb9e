package pyapp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	frames "github.com/spindleloop/spindle/internal/frame"
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
	out     *outlet
	first   *cosync.Inbox[*relay.Envelope] // the first answer of the process; closed when it has closed its output
	failure error                          // why the reading has ended; set before first is closed

	readers readers
	in      *bufio.Reader // in, started and sent belong to the goroutine that reads
	started bool          // the first answer has come
	sent    chan *hosted  // values for inboxes; nil if there were none

	life context.Context         // of Go functions that the process has called; ends with the process
	die  context.CancelCauseFunc // ends life

	// guarded by a.mu
	serving   bool // it is ready
	leaving   bool // it takes no more requests, and will end
	exited    bool
	suspected bool // it may have crashed, and was sent a ping
	active    int  // requests and calls that run, without upgraded connections
	calls     map[uint64]*cosync.Inbox[answer]
	hosted    map[uint64]*hosted
	lastID    uint64
	idle      []*conn // connections to use again, the last one first
}

// answer is the end of a call, or a batch of items of a stream.
type answer struct {
	body []byte
	err  error
	item bool
	raw  bool // body is large bytes as they are, and not CBOR
}

// decode decodes the result of a call.
func (a *answer) decode(dst any) error {
	if a.raw {
		return decodeRaw("result", a.body, dst)
	}
	return decode("result", a.body, dst)
}

// opHeader is the header of a frame that is an operation, and not a call.
const (
	opHeader = "op"
	opStop   = "stop"   // finish, and end
	opCancel = "cancel" // end now
	opPing   = "ping"   // answer with a ping
	opLeave  = "leave"  // from the process: replace me
	opBlob   = "blob"   // large bytes, which are an argument of the call that follows

	opConnection = "connection" // a call that serves a connection; its body is the target

	rawHeader = "raw" // the header of a reply that is large bytes as they are
)

func newWorker(a *App, process *workerproc.Process, socket string) *worker {
	life, die := context.WithCancelCause(context.Background())
	w := &worker{
		a: a, process: process, socket: socket, life: life, die: die, hosted: map[uint64]*hosted{},
		in:  bufio.NewReaderSize(process.Output, workerproc.ReadBuffer),
		out: newOutlet(process.Input), first: cosync.NewInbox[*relay.Envelope](1),
		calls: map[uint64]*cosync.Inbox[answer]{},
	}
	w.readers.w = w
	return w
}

// start starts the goroutines that read and write frames. They run until end.
func (w *worker) start() {
	w.readers.handOver()
	w.a.goForPython(func() { w.out.write(w.pass) })
	w.a.goForPython(w.out.writeLate)
}

// waitReady waits until the worker serves. It fails with an error that is ErrStart if it does not.
func (w *worker) waitReady(ctx context.Context, limit time.Duration) error {
	var first *relay.Envelope
	err := spindle.FailAfter(ctx, limit, func(ctx context.Context) (err error) {
		first, err = w.first.Get(ctx)
		return err
	})
	switch {
	case err == nil && first.Kind == relay.KindReply:
		return nil
	case err == nil:
		reason, ok := reasons[first.Headers["reason"]]
		if !ok {
			reason = errExited
		}
		return &startError{reason: reason, text: string(first.Body)}
	case errors.Is(err, spindle.ErrTimeout):
		return &startError{reason: errStartTimeout, text: fmt.Sprintf("it took longer than %v", limit)}
	case errors.As(err, new(*spindle.Canceled)):
		return err
	}
	exit := w.waitExit(ctx)
	if exited := (*exec.ExitError)(nil); errors.As(exit, &exited) && exited.ExitCode() == notInstalled {
		return &startError{reason: errNotInstalled}
	}
	return &startError{reason: errExited, text: fmt.Sprintf("%v; its standard error may have the reason", exit)}
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

// serve waits until the process ends, and returns how it has ended.
func (w *worker) serve(ctx context.Context) error {
	defer w.end()
	defer w.a.remove(w)
	if _, err := w.first.Get(ctx); !errors.Is(err, cosync.ErrClosed) {
		return err
	}
	if w.a.withdraw(w); w.a.isLeaving(w) {
		return w.process.Wait(ctx) // for as long as drain allows
	}
	if w.failure == io.EOF {
		w.failure = nil
	}
	return errors.Join(w.failure, w.waitExit(ctx))
}

// read passes frames on until another goroutine reads, or the process closes its output.
func (w *worker) read() {
	for {
		e, err := frames.Read(w.in, w.a.maxCallBytes()+1<<20)
		switch {
		case err != nil:
			w.failure = err
			w.first.Close()
			return
		case e.Kind == relay.KindRequest:
			if !w.host(e) {
				return
			}
		case !w.started && (e.Kind == relay.KindReply || e.Kind == relay.KindFailure):
			w.started = true // before that, the startup of the app calls Go
			_ = w.first.TryPut(e)
		default:
			w.receive(e)
		}
	}
}

// receive handles a frame that is not a request. Only for read.
func (w *worker) receive(e *relay.Envelope) {
	switch e.Headers[opHeader] {
	case opLeave:
		w.leave()
		return
	case opPing:
		w.a.trust(w)
		return
	}
	w.a.mu.Lock()
	waiting, h := w.calls[e.ID], w.hosted[e.ID]
	if e.Kind == relay.KindReply || e.Kind == relay.KindFailure {
		delete(w.calls, e.ID)
	}
	w.a.mu.Unlock()
	switch {
	case e.Kind == relay.KindCancel && h != nil:
		h.cancel(context.Canceled)
	case e.Kind == relay.KindCredit && h != nil && h.flow != nil:
		h.flow.allow(e.Seq)
	case waiting == nil: // the call was cancelled
	case e.Kind == relay.KindFailure:
		_ = waiting.TryPut(answer{err: errorOf(e.Body)})
	case e.Kind == relay.KindItem || e.Kind == relay.KindReply:
		_ = waiting.TryPut(answer{body: e.Body, item: e.Kind == relay.KindItem, raw: e.Headers[rawHeader] != ""})
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
	w.out.close()
	w.readers.close()
	w.process.End()
}

// send sends an operation.
func (w *worker) send(op string) {
	w.post(&relay.Envelope{Kind: relay.KindRequest, Headers: map[string]string{opHeader: op}})
}

// post sends a small frame without waiting for the process.
func (w *worker) post(e *relay.Envelope) {
	f, err := newFrame(e, nil)
	if err != nil {
		panic("pyapp: " + err.Error()) // a small frame always fits
	}
	w.out.post(f)
}

// kill kills the process, from any goroutine.
func (w *worker) kill() {
	if l := w.a.loop(); l != nil {
		_ = l.PostDroppable(w.process.KillGroup) // a loop that has ended has no processes
	}
}
