package transport

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/internal/tlsio"
	"github.com/spindleloop/spindle/internal/workers"
	"github.com/spindleloop/spindle/loop"
)

// handshake is the state of a tlsLayer during its handshake.
//
// Workers run the steps of the session, because the computations take up to some
// milliseconds. A step lasts from one piece of input to the next. Between steps the
// handshake occupies no worker, so slow peers do not delay others.
type handshake struct {
	layer         *tlsLayer
	done          func(error) // called with the result, unless the connection was ended on this side
	local, remote net.Addr    // cached, because callbacks of the tls.Config run on workers

	// Loop goroutine only.
	timer    loop.Timer
	job      loop.Job
	stepping bool // a step is queued or running

	// Owned by the worker during a step, and by the loop between steps, as is the
	// session.
	records []byte // made by the last step

	mu        sync.Mutex
	running   bool // a worker has the session, or will have it; guarded by mu
	abandoned bool // the connection is lost; guarded by mu
}

// role is the side of a handshake. A client sends first.
type role uint8

const (
	asServer role = iota
	asClient
)

func (r role) side() func(net.Conn, *tls.Config) *tls.Conn {
	if r == asClient {
		return tls.Client
	}
	return tls.Server
}

// startHandshake secures the connection and calls done with the result. If the
// handshake fails, the connection is lost.
func (c *Conn) startHandshake(r role, config *tls.Config, timeout time.Duration, ahead []byte, done func(error)) {
	t := &tlsLayer{c: c}
	h := &handshake{layer: t, done: done}
	h.local, h.remote = c.addrsOrUnknown()
	t.Init(r.side(), config, (*tlsSocket)(t))
	t.Feed(ahead)
	t.handshake = h
	c.tls = t
	c.marks |= handshaking
	if timeout == 0 {
		timeout = tlsio.DefaultHandshakeTimeout
	}
	if timeout > 0 {
		h.timer = c.Loop().CallLater(timeout, func() { h.fail(os.ErrDeadlineExceeded) })
	}
	if err := tlsio.CheckSimulated(c.st.sockets.K, config, r == asClient); err != nil {
		c.st.sockets.L.Internal().CallSoon(atclose.Run, func() { h.fail(err) })
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
	buf := c.st.sockets.Buf[:tlsio.MaxRecord]
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
	h.layer.Feed(buf[:n])
	h.step()
}

// handshakes is the pool of handshakes: blocking work of the program does not delay them.
var handshakes = workers.Pool{Name: "TLS handshakes"}

// step lets a worker continue the handshake. Nothing is read meanwhile.
func (h *handshake) step() {
	c := h.layer.c
	h.stepping = true
	c.socket.PauseReading()
	h.mu.Lock()
	h.running = true
	h.mu.Unlock()
	job, err := onloop.Offload(c.Loop(), &handshakes, atclose.Drop, h.runStep, h.stepDone)
	if err == nil {
		h.job = job
		return
	}
	h.endStep() // the queue of the workers is full
	c.Loop().CallLater(offloadRetryDelay, func() {
		if !c.phase.lost() {
			h.step()
		}
	})
}

// runStep runs on a worker.
func (h *handshake) runStep() (ended bool, err error) {
	defer h.endStep()
	return h.layer.Step(), nil
}

// endStep ends a step, and the handshake if it was abandoned meanwhile.
func (h *handshake) endStep() {
	h.mu.Lock()
	h.running = false
	abandoned := h.abandoned
	h.mu.Unlock()
	if abandoned {
		h.layer.Abort()
	}
}

// abandon is called when the connection is lost. A worker aborts the session: the loop
// may be on a locked thread, where a coroutine that started on another thread must not
// be resumed.
func (h *handshake) abandon() {
	h.timer.Cancel()
	cancelled := h.job.Cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.abandoned = true
	if (!h.running || cancelled) && h.layer.State() == tlsio.Handshaking {
		h.layer.c.st.sockets.K.Start(h.layer.Abort)
	}
}

// stepDone runs on the loop after a step.
func (h *handshake) stepDone(ended bool, panicked error) {
	c := h.layer.c
	if h.stepping = false; c.phase.lost() {
		return
	}
	if panicked != nil {
		h.fail(errPanicked)
		panic(panicked) // for the loop's OnPanic
	}
	records := h.records
	h.records = nil
	if err := c.sendRaw(records); err != nil {
		h.fail(err)
		return
	}
	switch err := h.layer.Result(); {
	case !ended:
		h.waitInput()
	case err != nil:
		h.refusePlain(err)
		h.fail(err)
	default:
		h.succeed()
	}
}

// refusePlain answers a peer that does not speak TLS.
func (h *handshake) refusePlain(err error) {
	c := h.layer.c
	var plain tls.RecordHeaderError
	if c.shard == nil || c.shard.s.o.RefusePlain == nil || !errors.As(err, &plain) {
		return
	}
	_ = c.sendRaw(c.shard.s.o.RefusePlain(plain.RecordHeader[:])) // the connection is lost anyway
}

// succeed ends the handshake and starts the exchange of data.
func (h *handshake) succeed() {
	c := h.layer.c
	h.timer.Cancel()
	h.layer.handshake = nil
	c.marks &^= handshaking
	if c.unsent != nil {
		c.drain()
	}
	if !c.phase.closing() {
		h.done(nil)
	}
	if c.is(pausedReading) || c.phase.closing() {
		return
	}
	if err := c.socket.ResumeReading(); err != nil {
		c.lose(c.opError("read", err))
		return
	}
	c.readSoon()
}
