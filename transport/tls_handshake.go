package transport

import (
	"crypto/tls"
	"errors"
	"io"
	"iter"
	"net"
	"os"
	"sync"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/internal/tlsio"
	"github.com/spindleloop/spindle/loop"
)

// handshake is what a secure needs until it has shaken hands.
//
// To crypto/tls a handshake is one call, which cannot be taken up again once it has
// failed for want of input. So it is made in a coroutine that gives way where it
// has to read, and workers resume it, because what it computes takes up to some
// milliseconds: a step is from one piece of input to the next. Between steps it
// holds no worker, so that peers who take their time hold up nobody.
type handshake struct {
	s             *secure
	over          func(error) // told how it went, unless the connection was ended from here
	local, remote net.Addr    // may be asked for by what crypto/tls calls

	// Loop goroutine only.
	timer loop.Timer
	job   loop.Job
	busy  bool // a step is under way, or soon will be

	// Whoever's the step is: a worker's, or between steps the loop's.
	in, out []byte
	next    func() (struct{}, bool) // of the coroutine; nil before the first step
	yield   func(struct{}) bool
	cut     bool // no more input will come
	done    bool
	err     error // of the handshake, when it is done

	mu      sync.Mutex
	working bool // somebody has the coroutine, or soon will; guarded by mu
	left    bool // nobody waits for it any more; guarded by mu
}

// role is which end of a handshake this is: a client speaks first.
type role uint8

const (
	asServer role = iota
	asClient
)

func (r role) secure(w *wire, config *tls.Config) *tls.Conn {
	if r == asClient {
		return tls.Client(w, config)
	}
	return tls.Server(w, config)
}

// shakeHands secures the connection, and calls over when that is done, or has
// failed: then the connection is lost.
func (c *Conn) shakeHands(r role, config *tls.Config, patience time.Duration, ahead []byte, over func(error)) {
	s := &secure{c: c}
	h := &handshake{s: s, over: over, in: append([]byte(nil), ahead...)}
	h.local, h.remote = c.ends()
	s.tls, s.shake = r.secure((*wire)(s), config), h
	c.tls = s
	c.state |= shaking
	if patience == 0 {
		patience = tlsio.DefaultHandshakeTimeout
	}
	if patience > 0 {
		h.timer = c.Loop().CallLater(patience, func() { h.fail(os.ErrDeadlineExceeded) })
	}
	if err := tlsio.CheckSimulated(c.st.hub.K, config, r == asClient); err != nil {
		c.st.hub.L.CallSoonWith(loop.RunAtClose, func() { h.fail(err) })
		return
	}
	if r == asClient || len(ahead) > 0 {
		h.step()
	} else {
		h.listen()
	}
}

// fail ends the connection. The error names the peer, which the system may not know any
// more; an alert of TLS is an error without addresses.
func (h *handshake) fail(err error) {
	c := h.s.c
	if alert := (*net.OpError)(nil); errors.As(err, &alert) && alert.Addr == nil {
		err = &net.OpError{Op: alert.Op, Net: c.network(), Source: h.local, Addr: h.remote, Err: alert.Err}
	}
	c.lose(sock.Error("handshake", c.network(), h.local, h.remote, err))
}

// listen waits for input, and goes on with it.
func (h *handshake) listen() {
	if err := h.s.c.socket.ResumeReading(); err != nil {
		h.fail(err)
		return
	}
	h.advance()
}

// advance goes on if there is input.
func (h *handshake) advance() {
	c := h.s.c
	if h.busy || !c.socket.Readable() {
		return
	}
	buf := c.st.hub.Buf[:recordSize]
	n, err := c.socket.Read(buf)
	switch {
	case err == errAgain:
		return
	case err == io.EOF:
		h.fail(io.ErrUnexpectedEOF)
		return
	case err != nil:
		h.fail(err)
		return
	}
	c.in += uint64(n)
	c.hears()
	h.in = append(h.in, buf[:n]...)
	h.step()
}

// step has a worker go on with the handshake. Meanwhile nothing is read.
func (h *handshake) step() {
	c := h.s.c
	h.busy = true
	c.socket.PauseReading()
	h.mu.Lock()
	h.working = true
	h.mu.Unlock()
	job, err := loop.OffloadWith(c.Loop(), loop.DropAtClose, h.work, h.worked)
	if err == nil {
		h.job = job
		return
	}
	h.rest() // too many wait for a worker
	c.Loop().CallLater(spanRest, func() {
		if !c.is(lost) {
			h.step()
		}
	})
}

// work is a worker's.
func (h *handshake) work() (struct{}, error) {
	defer h.rest()
	if h.next == nil {
		h.next, _ = iter.Pull(h.run)
	}
	h.next()
	return struct{}{}, nil
}

// run is the coroutine.
func (h *handshake) run(yield func(struct{}) bool) {
	h.yield = yield
	defer func() { // also if something that crypto/tls calls panics
		h.done = true
		goid.ThreadLock{}.Restore() // the runtime wants a coroutine to end as it began
	}()
	h.err = errors.New("tls: the handshake panicked")
	h.err = h.s.tls.Handshake()
}

// errLockedThread ends a handshake that would switch on a locked thread, for which the
// runtime would end the process.
var errLockedThread = errors.New("transport: a function of the tls.Config left its thread locked (runtime.LockOSThread)")

// read is what crypto/tls reads from in the handshake.
func (h *handshake) read(p []byte) (int, error) {
	for len(h.in) == 0 {
		if h.cut {
			return 0, net.ErrClosed
		}
		if *goid.LockWord(goid.Current()) != 0 {
			return 0, errLockedThread
		}
		h.yield(struct{}{})
	}
	n := copy(p, h.in)
	h.in = h.in[n:]
	return n, nil
}

// write is what crypto/tls writes to in the handshake.
func (h *handshake) write(p []byte) (int, error) {
	h.out = append(h.out, p...)
	return len(p), nil
}

// rest is the end of a step. If nobody waits for the next, it is also the end of the
// coroutine: one that is left where it waits is never collected.
func (h *handshake) rest() {
	h.mu.Lock()
	h.working = false
	left := h.left
	h.mu.Unlock()
	if left {
		h.quit()
	}
}

// quit ends the coroutine.
func (h *handshake) quit() {
	if h.next != nil && !h.done {
		h.cut = true
		h.next()
	}
}

// abandon is called when the connection is lost. A worker sees to the rest, because
// a coroutine must not be resumed on a locked thread, as that of a loop may be, if it
// was begun on another.
func (h *handshake) abandon() {
	h.timer.Cancel()
	taken := h.job.Cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = true
	if (!h.working || taken) && h.next != nil && !h.done {
		h.s.c.st.hub.K.Start(h.quit)
	}
}

// worked is what follows a step, on the loop.
func (h *handshake) worked(_ struct{}, fault error) {
	c := h.s.c
	if h.busy = false; c.is(lost) {
		return
	}
	if fault != nil {
		h.fail(errPanicked)
		panic(fault) // for the loop's OnPanic
	}
	out := h.out
	h.out = nil
	if err := c.sendSealed(out); err != nil {
		h.fail(err)
		return
	}
	switch {
	case !h.done:
		h.listen()
	case h.err != nil:
		h.refusePlain()
		h.fail(h.err)
	default:
		h.succeed()
	}
}

// refusePlain answers a peer that does not speak TLS.
func (h *handshake) refusePlain() {
	c := h.s.c
	var not tls.RecordHeaderError
	if c.server == nil || c.server.o.RefusePlain == nil || !errors.As(h.err, &not) {
		return
	}
	_ = c.sendSealed(c.server.o.RefusePlain(not.RecordHeader[:])) // the connection is lost in any case
}

// succeed lets data come and go.
func (h *handshake) succeed() {
	c, s := h.s.c, h.s
	h.timer.Cancel()
	s.ahead, s.shake, s.more = h.in, nil, true
	c.state &^= shaking
	if c.unsent != nil {
		c.drain()
	}
	if !c.is(closing | lost) {
		h.over(nil)
	}
	if c.is(pausedReading | closing | lost) {
		return
	}
	if err := c.socket.ResumeReading(); err != nil {
		c.lose(c.fault("read", err))
		return
	}
	c.readOn()
}
