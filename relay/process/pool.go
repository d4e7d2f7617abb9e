package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/backoff"
	"github.com/spindleloop/spindle/internal/frame"
	"github.com/spindleloop/spindle/internal/workerproc"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/tracing"
)

// pool is the processes of a Serve. Loop goroutine only.
type pool struct {
	o       Options
	ctx     context.Context // the processes belong to its scope
	n       *spindle.Nursery
	idle    []*child     // the last one is the next to work
	freed   cosync.Event // a process became idle
	dir     string       // of the sockets; "" without Options.Socket
	sockets int          // that were named
	backoff backoff.Backoff
	resume  time.Time // no process starts before
}

// child is a worker process. One request at a time uses it.
type child struct {
	*workerproc.Process
	request  uint64 // the ID of the latest request in its frames: IDs of two callers may be equal
	canceled uint64 // the latest request that was cancelled
	answered bool   // it has answered a request
	torn     bool   // a frame was cut: what follows cannot be understood
	verbose  bool   // it has sent more than one answer to a request
}

func (p *pool) start() (*child, error) {
	c := workerproc.Config{
		Command: p.o.Command, Dir: p.o.Dir, Stderr: p.o.Stderr, MaxMemory: p.o.MaxMemory, ConnectWithin: p.o.StartTimeout,
	}
	if p.dir != "" {
		p.sockets++
		c.Socket = filepath.Join(p.dir, strconv.Itoa(p.sockets))
	}
	c.Env = environment(p.o.Env, c.Socket)
	process, err := workerproc.Start(p.ctx, p.n, c)
	if err != nil {
		return nil, err
	}
	return &child{Process: process}, nil
}

// environment returns an environment in which socketVariable has the path of the socket. It
// has no such variable if there is no socket: this process may be a worker itself.
func environment(env []string, socket string) []string {
	if env == nil {
		env = os.Environ()
	}
	env = slices.DeleteFunc(slices.Clone(env), func(s string) bool { return strings.HasPrefix(s, socketVariable+"=") })
	if socket != "" {
		env = append(env, socketVariable+"="+socket)
	}
	return env
}

// acquire returns a process that is not in use. There is always room for one, because no
// more requests run at a time than there may be processes.
func (p *pool) acquire(ctx context.Context) (*child, error) {
	for {
		if c := p.takeIdle(); c != nil {
			return c, p.connect(ctx, c)
		}
		wait := p.resume.Sub(p.o.clock.now(ctx))
		if wait <= 0 {
			break
		}
		p.freed.Clear()
		if _, err := p.o.clock.moveOnAfter(ctx, wait, p.freed.Wait); err != nil {
			return nil, err
		}
	}
	c, err := p.start()
	if err != nil {
		p.failed()
		return nil, err
	}
	return c, p.connect(ctx, c)
}

// takeIdle returns an idle process that can be used, or nil.
func (p *pool) takeIdle() *child {
	for len(p.idle) > 0 {
		last := len(p.idle) - 1
		c := p.idle[last]
		p.idle = p.idle[:last]
		if c.Usable() {
			return c
		}
		p.discard(c) // it exited, or did not connect, while it was idle
	}
	return nil
}

// release makes a process idle. It is the next to work.
func (p *pool) release(c *child) {
	p.idle = append(p.idle, c)
	p.freed.Set()
}

// connect waits until a process is connected. If it fails, the process is not in use.
func (p *pool) connect(ctx context.Context, c *child) error {
	err := c.WaitConnected(ctx)
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*spindle.Canceled)):
		p.idle = slices.Insert(p.idle, 0, c) // it goes on to start, for a later request
		p.freed.Set()
		return err
	case err == workerproc.ErrConnectTimeout:
		err = fmt.Errorf("%w (%v)", errStartTimeout, p.o.StartTimeout)
	default:
		err = c.broken(ctx, err)
	}
	p.discard(c)
	return err
}

// discard ends a process that is of no more use. If it got a request and did not answer, that
// may be the fault of the request: the pause is short, so that others do not wait for long. It
// only limits how often processes start.
func (p *pool) discard(c *child) {
	c.End()
	switch {
	case c.answered:
	case c.request > 0:
		p.pause(p.o.Backoff)
	default:
		p.failed()
	}
}

// failed makes the next process start later, because one could not be used at all.
func (p *pool) failed() { p.pause(p.backoff.Next()) }

// pause makes the next process start after d, unless it is to start later.
func (p *pool) pause(d time.Duration) {
	if at := p.o.clock.now(p.ctx).Add(d); at.After(p.resume) {
		p.resume = at
	}
}

func (p *pool) close() {
	for _, c := range p.idle {
		c.End()
	}
}

// handle serves a request with a process.
func (p *pool) handle(ctx context.Context, r *relay.Request) (body []byte, err error) {
	c, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	e := *r.Envelope
	c.request++
	e.ID, e.Token, e.Trace = c.request, 0, tracing.Of(ctx)
	if at, ok := ctx.Deadline(); ok {
		e.Deadline = max(at.Sub(spindle.Now(ctx)), 1)
	}
	request, err := frame.Append(nil, &e)
	if err != nil {
		p.release(c) // it has got nothing
		return nil, err
	}
	done := false
	defer func() {
		if done {
			p.release(c)
		} else {
			p.discard(c)
		}
	}()
	exchange := func(ctx context.Context) error {
		if err := c.write(ctx, request); err != nil {
			return err
		}
		body, done, err = p.answer(ctx, c, r)
		return err
	}
	if p.o.MaxTime > 0 {
		err = spindle.FailAfter(ctx, p.o.MaxTime, exchange)
	} else {
		err = exchange(ctx)
	}
	expired := errors.Is(err, spindle.ErrTimeout)
	// Send fails with context.Canceled if it knows of the cancellation before ctx does.
	if !c.torn && (errors.As(err, new(*spindle.Canceled)) || errors.Is(err, context.Canceled) || expired) {
		done = p.cancel(ctx, c, r)
	}
	if expired {
		err = fmt.Errorf("process: no answer within Options.MaxTime, %v", p.o.MaxTime)
	}
	done = done && !c.torn
	if done {
		c.answered = true
		p.backoff.Reset()
	}
	// What the process has sent after its answer belongs to no request, and must not meet the next.
	// It may be the second answer to a request that was cancelled, which is allowed.
	done = done && !c.verbose && (c.canceled == c.request || c.Out.Buffered() == 0)
	return body, err
}

// write sends a frame to the process.
func (c *child) write(ctx context.Context, f []byte) error {
	if n, err := c.In.Write(f); err != nil {
		c.torn = c.torn || n > 0
		return c.broken(ctx, err)
	}
	return nil
}

// read reads a frame from the process. If it is cancelled before the frame begins, nothing is
// lost.
func (c *child) read(maxBody int) (*relay.Envelope, error) {
	if _, err := c.Out.Peek(1); err != nil {
		return nil, err
	}
	var buffer [40]byte
	begin, _ := c.Out.Peek(min(c.Out.Buffered(), len(buffer)))
	begin = buffer[:copy(buffer[:], begin)]
	e, err := frame.Read(c.Out, maxBody)
	if err == nil {
		return e, nil
	}
	c.torn = true
	// Text is a length above half a gigabyte.
	if invalid(err) && isText(begin[0]) {
		err = fmt.Errorf("%w: it wrote %q instead of a frame; text goes to standard error", frame.ErrMalformed, begin)
	}
	return nil, err
}

func invalid(err error) bool {
	return errors.Is(err, frame.ErrMalformed) || errors.Is(err, relay.ErrTooLarge)
}

func isText(b byte) bool { return b >= ' ' && b <= '~' || b == '\n' || b == '\r' || b == '\t' }

// answer reads the answers to a request. It reports whether the process has finished it.
func (p *pool) answer(ctx context.Context, c *child, r *relay.Request) (body []byte, done bool, err error) {
	for items := uint32(0); ; {
		e, err := c.read(p.o.MaxBody)
		switch {
		case err != nil:
			return nil, false, c.broken(ctx, err)
		case e.ID != 0 && e.ID <= c.canceled:
			continue // it had answered when the cancel frame came, and answered that one too
		case e.ID != 0 && e.ID < c.request:
			c.verbose = true // this request is not to blame, and is answered
			continue
		case e.ID != c.request:
			return nil, false, fmt.Errorf("%w: an answer to request %d instead of %d", errExited, e.ID, c.request)
		case e.Kind == relay.KindReply:
			for k, v := range e.Headers { // any order: each is set on its own
				r.SetHeader(k, v)
			}
			return e.Body, true, nil
		case e.Kind == relay.KindFailure:
			return nil, true, errors.New(string(e.Body))
		case e.Kind != relay.KindItem || e.Seq != items+1:
			return nil, false, fmt.Errorf("%w: an unexpected %v with seq %d", errExited, e.Kind, e.Seq)
		}
		items++
		if err := r.Send(ctx, e.Body); err != nil {
			return nil, false, err
		}
	}
}

// broken returns the error for a process that cannot be used: a cancellation, if that was the
// reason, or an error with the process's state.
func (c *child) broken(ctx context.Context, err error) error {
	if canceled := spindle.Checkpoint(ctx); canceled != nil {
		return canceled
	}
	if invalid(err) {
		return fmt.Errorf("%w: %w", errExited, err)
	}
	c.KillGroup() // it has closed its output
	expired, exit := spindle.MoveOnAfter(ctx, time.Second, c.Wait)
	if expired || exit == nil {
		return errExited
	}
	return fmt.Errorf("%w: %w", errExited, exit)
}

// cancel asks a process to give a request up. It reports whether the process did.
func (p *pool) cancel(ctx context.Context, c *child, r *relay.Request) (done bool) {
	c.canceled = c.request
	_ = spindle.Grace(ctx, p.o.Grace, func(ctx context.Context) error { // otherwise it is killed
		e := relay.Envelope{Kind: relay.KindCancel, ID: c.request, Trace: r.Trace, Subject: r.Subject}
		cancel, err := frame.Append(nil, &e)
		if err == nil {
			err = c.write(ctx, cancel)
		}
		if err != nil {
			return err
		}
		for {
			e, err := c.read(p.o.MaxBody)
			if err != nil {
				return err
			}
			if e.ID == c.request && (e.Kind == relay.KindReply || e.Kind == relay.KindFailure) {
				done = true
				return nil
			}
		}
	})
	return done
}
