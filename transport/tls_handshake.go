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

// handshake is the state of a tlsLayer during its handshake.
//
// In crypto/tls a handshake is one call, which cannot be resumed once it has failed
// because input is missing. So it runs in a coroutine that yields where it has to read.
// Workers resume it, because the computations take up to some milliseconds. A step lasts
// from one piece of input to the next. Between steps it occupies no worker, so slow
// peers do not delay others.
type handshake struct {
	layer         *tlsLayer
	done          func(error) // called with the result, unless the connection was ended on this side
	local, remote net.Addr    // cached, because callbacks of the tls.Config run on workers

	// Loop goroutine only.
	timer    loop.Timer
	job      loop.Job
	stepping bool // a step is queued or running

	// Owned by the worker during a step, and by the loop between steps.
	in, out  []byte
	resume   func() (struct{}, bool) // resumes the coroutine; nil before the first step
	yield    func(struct{}) bool
	aborted  bool // no more input will arrive
	finished bool
	err      error // result of the handshake, once it is finished

	mu        sync.Mutex
	running   bool // a worker has the coroutine, or will have it; guarded by mu
	abandoned bool // the connection is lost; guarded by mu
}

// role is the side of a handshake. A client sends first.
type role uint8

const (
	asServer role = iota
	asClient
)

func (r role) newConn(w *tlsWire, config *tls.Config) *tls.Conn {
	if r == asClient {
		return tls.Client(w, config)
	}
	return tls.Server(w, config)
}

// startHandshake secures the connection and calls done with the result. If the
// handshake fails, the connection is lost.
func (c *Conn) startHandshake(r role, config *tls.Config, timeout time.Duration, ahead []byte, done func(error)) {
	s := &tlsLayer{c: c}
	h := &handshake{layer: s, done: done, in: append([]byte(nil), ahead...)}
	h.local, h.remote = c.addrsOrUnknown()
	s.tls, s.handshake = r.newConn((*tlsWire)(s), config), h
	c.tls = s
	c.state |= handshaking
	if timeout == 0 {
		timeout = tlsio.DefaultHandshakeTimeout
	}
	if timeout > 0 {
		h.timer = c.Loop().CallLater(timeout, func() { h.fail(os.ErrDeadlineExceeded) })
	}
	if err := tlsio.CheckSimulated(c.st.sockets.K, config, r == asClient); err != nil {
		c.st.sockets.L.CallSoonWith(loop.RunAtClose, func() { h.fail(err) })
		return
	}
	if r == asClient || len(ahead) > 0 {
		h.step()
	} else {
		h.waitInput()
	}
}

// fail ends the connection. The error names the peer from the cached addresses: the
// system may no longer know them, and the error of a TLS alert has none.
func (h *handshake) fail(err error) {
	c := h.layer.c
	if alert := (*net.OpError)(nil); errors.As(err, &alert) && alert.Addr == nil {
		err = &net.OpError{Op: alert.Op, Net: c.network(), Source: h.local, Addr: h.remote, Err: alert.Err}
	}
	c.lose(sock.Error("handshake", c.network(), h.local, h.remote, err))
}

// waitInput watches for input and continues with it.
func (h *handshake) waitInput() {
	if err := h.layer.c.socket.ResumeReading(); err != nil {
		h.fail(err)
		return
	}
	h.advance()
}

// advance reads input, if there is any, and continues the handshake.
func (h *handshake) advance() {
	c := h.layer.c
	if h.stepping || !c.socket.Readable() {
		return
	}
	buf := c.st.sockets.Buf[:maxRecord]
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
	c.noteReceived()
	h.in = append(h.in, buf[:n]...)
	h.step()
}

// step lets a worker continue the handshake. Nothing is read meanwhile.
func (h *handshake) step() {
	c := h.layer.c
	h.stepping = true
	c.socket.PauseReading()
	h.mu.Lock()
	h.running = true
	h.mu.Unlock()
	job, err := loop.OffloadWith(c.Loop(), loop.DropAtClose, h.runStep, h.stepDone)
	if err == nil {
		h.job = job
		return
	}
	h.endStep() // the queue of the workers is full
	c.Loop().CallLater(offloadRetryDelay, func() {
		if !c.is(lost) {
			h.step()
		}
	})
}

// runStep runs on a worker.
func (h *handshake) runStep() (struct{}, error) {
	defer h.endStep()
	if h.resume == nil {
		h.resume, _ = iter.Pull(h.coroutine)
	}
	h.resume()
	return struct{}{}, nil
}

// coroutine is the body of the coroutine.
func (h *handshake) coroutine(yield func(struct{}) bool) {
	h.yield = yield
	defer func() { // deferred because callbacks of the tls.Config may panic
		h.finished = true
		goid.ThreadLock{}.Restore() // the runtime requires a coroutine to end with the thread lock it began with
	}()
	h.err = errors.New("tls: the handshake panicked")
	h.err = h.layer.tls.Handshake()
}

// errLockedThread ends a handshake that would switch on a locked thread, which would
// crash the process.
var errLockedThread = errors.New("transport: a function of the tls.Config left its thread locked (runtime.LockOSThread)")

// read is the Read below crypto/tls during the handshake.
func (h *handshake) read(p []byte) (int, error) {
	for len(h.in) == 0 {
		if h.aborted {
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

// write is the Write below crypto/tls during the handshake.
func (h *handshake) write(p []byte) (int, error) {
	h.out = append(h.out, p...)
	return len(p), nil
}

// endStep ends a step. If the handshake was abandoned, it also ends the coroutine: one
// that stays suspended is never collected.
func (h *handshake) endStep() {
	h.mu.Lock()
	h.running = false
	left := h.abandoned
	h.mu.Unlock()
	if left {
		h.stop()
	}
}

// stop ends the coroutine.
func (h *handshake) stop() {
	if h.resume != nil && !h.finished {
		h.aborted = true
		h.resume()
	}
}

// abandon is called when the connection is lost. A worker ends the coroutine: the loop
// may be on a locked thread, where a coroutine that started on another thread must not
// be resumed.
func (h *handshake) abandon() {
	h.timer.Cancel()
	cancelled := h.job.Cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.abandoned = true
	if (!h.running || cancelled) && h.resume != nil && !h.finished {
		h.layer.c.st.sockets.K.Start(h.stop)
	}
}

// stepDone runs on the loop after a step.
func (h *handshake) stepDone(_ struct{}, panicked error) {
	c := h.layer.c
	if h.stepping = false; c.is(lost) {
		return
	}
	if panicked != nil {
		h.fail(errPanicked)
		panic(panicked) // for the loop's OnPanic
	}
	out := h.out
	h.out = nil
	if err := c.sendRaw(out); err != nil {
		h.fail(err)
		return
	}
	switch {
	case !h.finished:
		h.waitInput()
	case h.err != nil:
		h.refusePlain()
		h.fail(h.err)
	default:
		h.succeed()
	}
}

// refusePlain answers a peer that does not speak TLS.
func (h *handshake) refusePlain() {
	c := h.layer.c
	var plain tls.RecordHeaderError
	if c.server == nil || c.server.o.RefusePlain == nil || !errors.As(h.err, &plain) {
		return
	}
	_ = c.sendRaw(c.server.o.RefusePlain(plain.RecordHeader[:])) // the connection is lost anyway
}

// succeed ends the handshake and starts the exchange of data.
func (h *handshake) succeed() {
	c, s := h.layer.c, h.layer
	h.timer.Cancel()
	s.pending, s.handshake, s.buffered = h.in, nil, true
	c.state &^= handshaking
	if c.unsent != nil {
		c.drain()
	}
	if !c.is(closing | lost) {
		h.done(nil)
	}
	if c.is(pausedReading | closing | lost) {
		return
	}
	if err := c.socket.ResumeReading(); err != nil {
		c.lose(c.opError("read", err))
		return
	}
	c.readSoon()
}
