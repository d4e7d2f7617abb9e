package transport

import (
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

// destination is an address as the socket takes it.
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

// SendTo sends one datagram, to the connected peer if to is the zero Addr. It
// never waits: if the system has no room, the datagram is kept and sent later. The
// slice is the caller's again when it returns. What it can tell to be wrong it
// returns, as a *net.OpError: closed, too long, no such network; what is found out
// later is told to ErrorReceived. That it was sent does not mean that it arrives.
func (e *Endpoint) SendTo(p []byte, to Addr) error {
	e.only("SendTo")
	if e.is(closing | lost) {
		return e.fault("write", net.ErrClosed)
	}
	a, err := e.destination(to)
	switch {
	case err != nil:
	case len(e.queue) > 0:
		e.keep(p, a)
	default:
		var earlier error
		if earlier, err = e.send(p, a); earlier != nil {
			e.st.hub.L.CallSoonWith(loop.DropAtClose, func() { e.failed(earlier) })
		}
		if err == errAgain {
			e.keep(p, a)
			err = nil
		}
	}
	return e.faultTo("write", to, err)
}

// Send is SendTo of the connected peer.
func (e *Endpoint) Send(p []byte) error { return e.SendTo(p, Addr{}) }

// send tries to send a datagram. A refusal is an answer to an earlier one, which
// the system hands out in place of sending this: it is tried again, once.
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

func (e *Endpoint) failed(err error) {
	if !e.is(lost) {
		e.guarded(func() { e.proto.ErrorReceived(e, e.fault("write", err)) })
	}
}

func (e *Endpoint) keep(p []byte, to kernel.Addr) {
	e.queue = append(e.queue, datagram{append([]byte(nil), p...), to})
	e.size += len(p)
	e.checkHigh()
}

// drain sends what waits, as far as there is room.
func (e *Endpoint) drain() {
	progress := false
	for len(e.queue) > 0 {
		d := e.queue[0]
		earlier, err := e.send(d.data, d.to)
		if earlier != nil {
			e.failed(earlier)
		}
		if e.is(lost) {
			return
		}
		if err == errAgain {
			if !progress {
				e.rest()
			}
			e.checkLow()
			return
		}
		progress = true
		e.queue[0] = datagram{}
		e.queue = e.queue[1:]
		e.size -= len(d.data)
		if err != nil {
			if e.failed(err); e.is(lost) {
				return
			}
		}
	}
	e.queue = nil
	e.checkLow()
	if err := e.socket.UnwatchWritable(); err != nil {
		e.lose(err)
		return
	}
	if e.is(closing) {
		e.lose(nil)
	}
}

// sendRest is how long an endpoint waits that has room but cannot send.
const sendRest = 5 * time.Millisecond

// rest looks away for a while. A Unix socket is writable when its own buffer has
// room, and yet refuses to send while the receiver's queue is full: to go by
// readiness would be to spin, or to wait for ever.
func (e *Endpoint) rest() {
	if err := e.socket.UnwatchWritable(); err != nil {
		e.lose(err)
		return
	}
	e.rests.Cancel()
	e.rests = e.Loop().CallLater(sendRest, func() {
		e.socket.ForgetReadiness()
		(*endpointOwner)(e).SocketReady()
	})
}

// SetWriteLimits sets the water marks: at more than high bytes that wait to be
// sent the protocol is told to pause, at low or less to go on.
func (e *Endpoint) SetWriteLimits(high, low int) {
	e.only("SetWriteLimits")
	if low < 0 || high <= low {
		panic("transport: SetWriteLimits needs 0 <= low < high")
	}
	e.high, e.low = high, low
	e.checkHigh()
	e.checkLow()
}

func (e *Endpoint) limits() (high, low int) {
	if e.high > 0 {
		return e.high, e.low
	}
	return defaultHigh, defaultLow
}

func (e *Endpoint) checkHigh() {
	high, _ := e.limits()
	if e.is(pausedWriting) || e.size <= high {
		return
	}
	e.state |= pausedWriting
	e.soon(func(p DatagramWritePauser) { p.PauseWriting(e) })
}

func (e *Endpoint) checkLow() {
	_, low := e.limits()
	if !e.is(pausedWriting) || e.size > low {
		return
	}
	e.state &^= pausedWriting
	e.soon(func(p DatagramWritePauser) { p.ResumeWriting(e) })
}

func (e *Endpoint) soon(tell func(DatagramWritePauser)) {
	p, ok := e.proto.(DatagramWritePauser)
	if !ok {
		return
	}
	e.st.hub.L.CallSoonWith(loop.DropAtClose, func() {
		if !e.is(lost) {
			e.guarded(func() { tell(p) })
		}
	})
}
