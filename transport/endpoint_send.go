package transport

import (
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/kernel"
)

// destination returns to as an address of the socket's family.
func (e *Endpoint) destination(to Addr) (kernel.Addr, error) {
	a := kernel.Addr{AddrPort: to.AddrPort, Path: to.Path}
	switch {
	case a.Family() == 0 && !e.connected:
		return a, syscall.EDESTADDRREQ
	case a.Family() == 0:
	case e.connected:
		return a, net.ErrWriteToConnected
	case e.family == kernel.IPv6 && a.Family() == kernel.IPv4:
		a.AddrPort = netip.AddrPortFrom(netip.AddrFrom16(a.Addr().As16()), a.Port())
	case e.family == kernel.IPv4 && a.Addr().Is4In6():
		a.AddrPort = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	case e.family != a.Family():
		return a, syscall.EAFNOSUPPORT
	}
	return a, nil
}

// SendTo sends one datagram, to the connected peer if to is the zero Addr. It never
// waits: if the system's buffer is full, the datagram is queued and sent later. The
// caller may reuse p when SendTo returns. Errors that are known at once are returned as
// a *net.OpError, for example that the endpoint is closed, the datagram too long or the
// network unreachable. Later errors are passed to ErrorReceived. A datagram that was
// sent may still be lost.
func (e *Endpoint) SendTo(p []byte, to Addr) error {
	e.checkLoop("SendTo")
	if e.phase.closing() {
		return e.opError("write", net.ErrClosed)
	}
	a, err := e.destination(to)
	switch {
	case err != nil:
	case len(e.queue) > 0:
		e.enqueue(p, a)
	default:
		var earlier error
		if earlier, err = e.send(p, a); earlier != nil {
			e.st.sockets.L.Internal().CallSoon(atclose.Drop, func() { e.reportError(earlier) })
		}
		if err == errAgain {
			e.enqueue(p, a)
			err = nil
		}
	}
	return e.opErrorTo("write", to, err)
}

// send tries to send a datagram. ECONNREFUSED is about an earlier datagram: the system
// returns it instead of sending this one, so send tries once more.
func (e *Endpoint) send(p []byte, to kernel.Addr) (earlier, err error) {
	err = e.socket.SendTo(p, to)
	if err == syscall.ECONNREFUSED && e.connected && e.family != kernel.Unix {
		earlier = err
		err = e.socket.SendTo(p, to)
	}
	if err == nil {
		e.out += uint64(len(p))
	}
	return earlier, err
}

// reportError calls ErrorReceived.
func (e *Endpoint) reportError(err error) {
	if !e.phase.lost() {
		e.guard(func() { e.proto.ErrorReceived(e, e.opError("write", err)) })
	}
}

func (e *Endpoint) enqueue(p []byte, to kernel.Addr) {
	e.queue = append(e.queue, datagram{append([]byte(nil), p...), to})
	e.queuedBytes += len(p)
	e.checkHigh()
}

// drain sends from the queue as much as the socket takes. Datagrams that ErrorReceived adds
// are sent in another turn: a protocol that sends a failed datagram again would otherwise
// hold the loop for ever.
func (e *Endpoint) drain() {
	progress := false
	for range len(e.queue) {
		d := e.queue[0]
		earlier, err := e.send(d.data, d.to)
		if earlier != nil {
			e.reportError(earlier)
		}
		if e.phase.lost() {
			return
		}
		if err == errAgain {
			if !progress {
				e.backOff()
			}
			e.checkLow()
			return
		}
		progress = true
		e.queue[0] = datagram{}
		e.queue = e.queue[1:]
		e.queuedBytes -= len(d.data)
		if err != nil {
			if e.reportError(err); e.phase.lost() {
				return
			}
		}
	}
	e.checkLow()
	if len(e.queue) > 0 {
		e.proceedSoon()
		return
	}
	e.queue = nil
	if err := e.socket.UnwatchWritable(); err != nil {
		e.lose(err)
		return
	}
	if e.phase == phaseClosing {
		e.lose(nil)
	}
}

// sendRetryDelay is how long a writable endpoint waits after it could not send.
const sendRetryDelay = 5 * time.Millisecond

// backOff retries after sendRetryDelay. A Unix socket is writable when its own buffer
// is not full, but cannot send while the queue of the receiver is full. Relying on
// readiness would spin or wait forever.
func (e *Endpoint) backOff() {
	if err := e.socket.UnwatchWritable(); err != nil {
		e.lose(err)
		return
	}
	e.retry.Cancel()
	e.retry = e.st.sockets.L.CallLater(sendRetryDelay, func() {
		e.socket.ForgetReadiness()
		e.proceed()
	})
}

func (e *Endpoint) limits() (high, low int) {
	if e.high > 0 {
		return e.high, e.low
	}
	return defaultHigh, defaultLow
}

// datagramHead is what a queued datagram counts besides its bytes: the size of the header
// of UDP.
const datagramHead = 8

// queueSize returns the size of the queue that is compared with the water marks.
func (e *Endpoint) queueSize() int { return e.queuedBytes + datagramHead*len(e.queue) }

func (e *Endpoint) checkHigh() {
	high, _ := e.limits()
	if e.paused || e.queueSize() <= high {
		return
	}
	e.paused = true
	e.notifyPauser(func(p DatagramWritePauser) { p.PauseWriting(e) })
}

func (e *Endpoint) checkLow() {
	_, low := e.limits()
	if !e.paused || e.queueSize() > low {
		return
	}
	e.paused = false
	e.notifyPauser(func(p DatagramWritePauser) { p.ResumeWriting(e) })
}

// notifyPauser queues a call of PauseWriting or ResumeWriting.
func (e *Endpoint) notifyPauser(call func(DatagramWritePauser)) {
	p, ok := e.proto.(DatagramWritePauser)
	if !ok {
		return
	}
	e.st.sockets.L.Internal().CallSoon(atclose.Drop, func() {
		if !e.phase.lost() {
			e.guard(func() { call(p) })
		}
	})
}
