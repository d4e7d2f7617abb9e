package simkernel

import (
	"net/netip"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

// mostBacklog is the longest queue of connections that wait to be accepted.
const mostBacklog = 4096

func (c *conn) listen(backlog int) error {
	switch c.state {
	case listening:
	case fresh:
		if !c.bound {
			if c.family == kernel.Unix {
				return syscall.EINVAL
			}
			any := netip.IPv4Unspecified()
			if c.family == kernel.IPv6 {
				any = netip.IPv6Unspecified()
			}
			if err := c.bind(kernel.Addr{AddrPort: netip.AddrPortFrom(any, 0)}); err != nil {
				return err
			}
		}
		if c.family != kernel.Unix {
			for _, o := range c.host.ports[portKey{c.kind, c.local.Port()}] {
				if o != &c.socket && o.listens && c.conflicts(o) {
					return syscall.EADDRINUSE
				}
			}
		}
		c.state, c.listens = listening, true
	default:
		return syscall.EINVAL
	}
	c.backlog = uint32(min(max(backlog, 0), mostBacklog))
	return nil
}

// full tells whether no more connections may come: as in Linux, those that are on
// their way do not count, and one more than the backlog waits.
func (c *conn) full() bool { return len(c.queue) > int(c.backlog) }

func (c *conn) accept() (int, error) {
	if c.state != listening {
		return -1, syscall.EINVAL
	}
	if len(c.queue) == 0 {
		return -1, syscall.EAGAIN
	}
	if err := c.p.room(); err != nil {
		return -1, err
	}
	s := c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	s.gate = nil
	s.file = c.p.open(s)
	return s.file.fd, nil
}

// hatch makes the server's end of a connection to a listener.
func (c *conn) hatch(client *conn, local kernel.Addr) *conn {
	s := &conn{socket: socket{
		p: c.p, host: c.host, family: c.family, kind: c.kind,
		local: local, remote: client.local, options: c.options,
	}, gate: c}
	s.state = connected
	return s
}

// connect begins a connection. That of a Unix socket is made at once.
func (c *conn) connect(a kernel.Addr) error {
	switch c.state {
	case connecting:
		return syscall.EALREADY
	case connected, listening:
		return syscall.EISCONN
	case broken:
		if c.err != 0 {
			return c.takeError()
		}
		return syscall.ECONNABORTED
	}
	if c.family == kernel.Unix {
		return c.connectUnix(a.Path)
	}
	to, target, source := c.host.route(wire(a).Addr())
	if to == nil {
		return syscall.ENETUNREACH
	}
	if !c.bound {
		port := c.host.freePort(c.kind)
		if port == 0 {
			return syscall.EADDRNOTAVAIL
		}
		if err := c.bind(kernel.Addr{AddrPort: netip.AddrPortFrom(source, port)}); err != nil {
			return err
		}
	} else if c.local.Addr().IsUnspecified() {
		c.local = kernel.Addr{AddrPort: netip.AddrPortFrom(source, c.local.Port())}
	}
	c.remote = kernel.Addr{AddrPort: netip.AddrPortFrom(target, a.Port())}
	c.state = connecting
	c.knock()
	return syscall.EINPROGRESS
}

// target is the host that the socket is connected to, or wants to be.
func (c *conn) target() *Host {
	to, _, _ := c.host.route(c.remote.Addr())
	return to
}

// How often and how long a connect is tried, as Linux does: after 1, 2, 4 …
// seconds, for some two minutes.
const (
	connectRetry = time.Second
	mostConnects = 7
)

// knock sends the first segment of the handshake.
func (c *conn) knock() {
	c.attempts++
	there := c.w().Link(c.host, c.target())
	c.w().trace.add(c.w(), traceEvent{kind: Connecting, from: c.host.id, to: c.target().id, port: c.remote.Port()})
	if !there.passes() {
		c.unheard("connect")
		return
	}
	c.w().at(there.depart(segmentHead)+there.travel(), knockArrives, c, uint64(c.attempts), 0)
}

// unheard has the connect tried again after a while.
func (c *conn) unheard(what string) {
	c.w().trace.add(c.w(), traceEvent{kind: Dropped, from: c.host.id, to: c.target().id, port: c.remote.Port(), note: what})
	c.w().at(c.w().Now()+connectRetry<<(c.attempts-1), knockAgain, c, uint64(c.attempts), 0)
}

func knockAgain(on any, attempt, _ uint64) {
	c := on.(*conn)
	switch {
	case c.state != connecting || c.closed || uint64(c.attempts) != attempt:
	case c.attempts >= mostConnects:
		c.breakOff(syscall.ETIMEDOUT)
	default:
		c.knock()
	}
}

// knockArrives is the handshake at the server.
func knockArrives(on any, _, _ uint64) {
	c := on.(*conn)
	if c.state != connecting || c.closed {
		return
	}
	h, w := c.target(), c.w()
	back := w.Link(h, c.host)
	if h.down {
		c.unheard("host is down")
		return
	}
	s := h.find(kernel.Stream, c.remote, c.local, func(s *socket) bool { return s.listens })
	if s == nil {
		if !back.passes() {
			c.unheard("refusal")
			return
		}
		w.at(back.depart(segmentHead)+back.travel(), refusalArrives, c, 0, w.moment())
		return
	}
	gate := s.file.object.(*conn)
	if gate.full() {
		c.unheard("backlog is full")
		return
	}
	if !back.passes() {
		c.unheard("answer to connect")
		return
	}
	server := gate.hatch(c, kernel.Addr{AddrPort: c.remote.AddrPort})
	join(c, server, w.Link(c.host, h), back)
	w.at(server.out.arrival(0), answerArrives, c, 0, w.moment())
}

func refusalArrives(on any, _, sent uint64) {
	c := on.(*conn)
	if c.state == connecting && !c.closed {
		c.w().trace.add(c.w(), traceEvent{kind: Refused, travel: c.w().since(sent), from: c.target().id, to: c.host.id, port: c.remote.Port()})
		c.breakOff(syscall.ECONNREFUSED)
	}
}

// answerArrives is the handshake back at the client: it is connected.
func answerArrives(on any, _, sent uint64) {
	c := on.(*conn)
	server := c.peer
	if c.closed || c.state != connecting {
		server.abandon()
		return
	}
	c.state = connected
	c.w().trace.add(c.w(), traceEvent{kind: Connected, travel: c.w().since(sent), from: c.host.id, to: server.host.id, conn: c.id, port: c.remote.Port()})
	c.changed(out)
	confirm(c, 0, 0)
}

// confirm sends the last segment of the handshake, again and again if need be.
func confirm(on any, tries, _ uint64) {
	c := on.(*conn)
	switch {
	case c.peer.gate == nil || c.peer.closed:
	case c.out.link.passes():
		c.w().at(c.out.arrival(0), confirmArrives, c.peer, tries, 0)
	case tries >= mostConnects:
		c.peer.abandon()
	default:
		c.w().at(c.w().Now()+connectRetry<<tries, confirm, c, tries+1, 0)
	}
}

// confirmArrives puts the connection where it can be accepted. If there is no
// room, the client, who knows nothing of it, will be asked to confirm again.
func confirmArrives(on any, tries, _ uint64) {
	s := on.(*conn)
	gate := s.gate
	switch {
	case gate == nil || s.closed:
	case gate.closed:
		s.gate, s.closed = nil, true
		if s.host.down {
			s.state = broken
			return
		}
		s.reset()
	case !gate.full():
		gate.queue = append(gate.queue, s)
		gate.changed(in)
	case tries >= mostConnects:
		s.abandon()
	default:
		s.w().at(s.w().Now()+connectRetry<<tries, confirm, s.peer, tries+1, 0)
	}
}

// abandon forgets a connection that never came to be.
func (c *conn) abandon() {
	c.gate = nil
	c.state, c.closed = broken, true
}
