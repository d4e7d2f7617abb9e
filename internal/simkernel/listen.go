package simkernel

import (
	"net/netip"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

// maxBacklog is the maximal length of a listener's queue.
const maxBacklog = 4096

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
	c.backlog = uint32(min(max(backlog, 0), maxBacklog))
	return nil
}

// full reports whether the listener's queue is full. As on Linux, connections in their
// handshake do not count, and the queue holds one more than the backlog.
func (c *conn) full() bool { return len(c.queue) > int(c.backlog) }

func (c *conn) accept() (int, error) {
	if c.state != listening {
		return -1, syscall.EINVAL
	}
	if len(c.queue) == 0 {
		return -1, syscall.EAGAIN
	}
	if err := c.p.canOpen(); err != nil {
		return -1, err
	}
	s := c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	s.listener = nil
	s.file = c.p.open(s)
	return s.file.fd, nil
}

// newServerEnd makes the server's end of a connection to a listener.
func (c *conn) newServerEnd(client *conn, local kernel.Addr) *conn {
	s := &conn{socket: socket{
		p: c.p, host: c.host, family: c.family, kind: c.kind,
		local: local, remote: client.local, options: c.options,
	}, listener: c}
	s.state = connected
	return s
}

// connect starts to connect. A Unix socket is connected at once.
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
	to, target, source := c.host.route(onWire(a).Addr())
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
	c.sendConnect()
	return syscall.EINPROGRESS
}

// target returns the host that the socket is connected or connecting to.
func (c *conn) target() *Host {
	to, _, _ := c.host.route(c.remote.Addr())
	return to
}

// Delays and number of attempts to connect. As on Linux, they are 1, 2, 4, … seconds apart
// and take some two minutes.
const (
	connectRetry = time.Second
	maxConnects  = 7
)

// sendConnect sends the first segment of the handshake.
func (c *conn) sendConnect() {
	c.attempts++
	there := c.w().Link(c.host, c.target())
	c.w().trace.add(c.w(), traceEvent{kind: Connecting, from: c.host.id, to: c.target().id, port: c.remote.Port()})
	if !there.passes() {
		c.connectLost("connect")
		return
	}
	c.w().at(there.depart(segmentHead)+there.travel(), connectArrives, c, uint64(c.attempts), 0)
}

// connectLost records a lost segment of the handshake and schedules another attempt.
func (c *conn) connectLost(what string) {
	c.w().trace.add(c.w(), traceEvent{kind: Dropped, from: c.host.id, to: c.target().id, port: c.remote.Port(), note: what})
	c.w().at(c.w().Now()+connectRetry<<(c.attempts-1), retryConnect, c, uint64(c.attempts), 0)
}

func retryConnect(on any, attempt, _ uint64) {
	c := on.(*conn)
	switch {
	case c.state != connecting || c.closed || uint64(c.attempts) != attempt:
	case c.attempts >= maxConnects:
		c.fail(syscall.ETIMEDOUT)
	default:
		c.sendConnect()
	}
}

// connectArrives is the first segment of the handshake at the server.
func connectArrives(on any, _, _ uint64) {
	c := on.(*conn)
	if c.state != connecting || c.closed {
		return
	}
	h, w := c.target(), c.w()
	back := w.Link(h, c.host)
	if h.down {
		c.connectLost("host is down")
		return
	}
	s := h.find(kernel.Stream, c.remote, c.local, func(s *socket) bool { return s.listens })
	if s == nil {
		if !back.passes() {
			c.connectLost("refusal")
			return
		}
		w.at(back.depart(segmentHead)+back.travel(), refusalArrives, c, 0, w.moment())
		return
	}
	listener := s.file.object.(*conn)
	if listener.full() {
		c.connectLost("backlog is full")
		return
	}
	if !back.passes() {
		c.connectLost("answer to connect")
		return
	}
	server := listener.newServerEnd(c, kernel.Addr{AddrPort: c.remote.AddrPort})
	connectPair(c, server, w.Link(c.host, h), back)
	w.at(server.out.arrival(0), answerArrives, c, 0, w.moment())
}

func refusalArrives(on any, _, sent uint64) {
	c := on.(*conn)
	if c.state == connecting && !c.closed {
		c.w().trace.add(c.w(), traceEvent{kind: Refused, travel: c.w().since(sent), from: c.target().id, to: c.host.id, port: c.remote.Port()})
		c.fail(syscall.ECONNREFUSED)
	}
}

// answerArrives is the second segment of the handshake at the client, which is connected
// now.
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

// confirm sends the last segment of the handshake, several times if it is lost.
func confirm(on any, tries, _ uint64) {
	c := on.(*conn)
	switch {
	case c.peer.listener == nil || c.peer.closed:
	case c.out.link.passes():
		c.w().at(c.out.arrival(0), confirmArrives, c.peer, tries, 0)
	case tries >= maxConnects:
		c.peer.abandon()
	default:
		c.w().at(c.w().Now()+connectRetry<<tries, confirm, c, tries+1, 0)
	}
}

// confirmArrives adds the connection to the listener's queue. If the queue is full, the
// client, which is already connected, will confirm again.
func confirmArrives(on any, tries, _ uint64) {
	s := on.(*conn)
	listener := s.listener
	switch {
	case listener == nil || s.closed:
	case listener.closed:
		s.listener, s.closed = nil, true
		if s.host.down {
			s.state = broken
			return
		}
		s.reset()
	case !listener.full():
		listener.queue = append(listener.queue, s)
		listener.changed(in)
	case tries >= maxConnects:
		s.abandon()
	default:
		s.w().at(s.w().Now()+connectRetry<<tries, confirm, s.peer, tries+1, 0)
	}
}

// abandon drops a connection after an incomplete handshake.
func (c *conn) abandon() {
	c.listener = nil
	c.state, c.closed = broken, true
}
