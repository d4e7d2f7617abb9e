package simkernel

import (
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

// dgram is a datagram socket, UDP or Unix.
type dgram struct {
	socket
	connected      bool
	peer           *dgram // of a Unix socket
	shutRead       bool
	shutWrite      bool
	queue          []*packet // received and not read
	queuedBytes    int       // in queue
	unsent         int       // bytes that wait for the bandwidth of the link
	writerWaits    bool      // a writer waits for space
	blockedWriters []*dgram  // Unix sockets that wait for space in queue
}

// packet is a datagram.
type packet struct {
	data     []byte
	from, to kernel.Addr
	sent     time.Duration
	sender   *dgram
	target   *Host
}

func (d *dgram) w() *World { return d.host.w }

func (d *dgram) readiness() (m mask) {
	if d.err != 0 {
		m |= failed
	}
	if len(d.queue) > 0 || d.shutRead {
		m |= in
	}
	if d.shutRead {
		m |= peerShut
		if d.shutWrite {
			m |= hungUp
		}
	}
	if d.writable() {
		m |= out
	}
	return m
}

// writable reports whether a datagram can be sent. If not, the socket will be woken.
func (d *dgram) writable() bool {
	if d.peer != nil {
		if d.peer.queueFull() {
			d.peer.addBlockedWriter(d)
			return false
		}
		return true
	}
	if d.unsent*2 > int(d.options[kernel.SendBuffer]) {
		d.writerWaits = true
		return false
	}
	return true
}

// maxQueued is the maximal number of datagrams in the queue of a Unix socket, as on Linux.
const maxQueued = 10

func (d *dgram) queueFull() bool { return d.family == kernel.Unix && len(d.queue) > maxQueued }

func (d *dgram) addBlockedWriter(writer *dgram) {
	for _, o := range d.blockedWriters {
		if o == writer {
			return
		}
	}
	d.blockedWriters = append(d.blockedWriters, writer)
}

func (d *dgram) recvFrom(b []byte) (n int, from kernel.Addr, truncated bool, err error) {
	if d.err != 0 {
		return 0, kernel.Addr{}, false, d.takeError()
	}
	if len(d.queue) == 0 {
		if d.shutRead {
			return 0, kernel.Addr{}, false, nil
		}
		return 0, kernel.Addr{}, false, syscall.EAGAIN
	}
	p := d.queue[0]
	d.queue[0] = nil
	d.queue = d.queue[1:]
	d.queuedBytes -= len(p.data)
	d.wakeWriters()
	n = copy(b, p.data)
	from = p.from
	if d.family != kernel.Unix { // where a sender without a name has no address
		from = d.inFamily(from)
	}
	return n, from, n < len(p.data), nil
}

// wakeWriters wakes the sockets that wait for space in the queue, if there is some.
func (d *dgram) wakeWriters() {
	if d.queueFull() {
		return
	}
	blockedWriters := d.blockedWriters
	d.blockedWriters = nil
	for _, o := range blockedWriters {
		o.file.changed(out)
	}
}

func (d *dgram) connect(a kernel.Addr) error {
	if d.family == kernel.Unix {
		return d.connectUnix(a)
	}
	a = onWire(a)
	to, target, source := d.host.route(a.Addr())
	if to == nil {
		return syscall.ENETUNREACH
	}
	if err := d.bindAny(source); err != nil {
		return err
	}
	if d.local.Addr().IsUnspecified() {
		d.local = kernel.Addr{AddrPort: netip.AddrPortFrom(source, d.local.Port())}
	}
	d.remote = kernel.Addr{AddrPort: netip.AddrPortFrom(target, a.Port())}
	d.connected = true
	return nil
}

// bindAny binds the socket to a free port unless it is bound.
func (d *dgram) bindAny(ip netip.Addr) error {
	if d.bound {
		return nil
	}
	return d.bind(kernel.Addr{AddrPort: netip.AddrPortFrom(ip, 0)})
}

func (d *dgram) sendTo(b []byte, to kernel.Addr) (int, error) {
	switch {
	case d.err != 0:
		return 0, d.takeError()
	case d.shutWrite:
		return 0, syscall.EPIPE
	case to == kernel.Addr{} && !d.connected && d.family == kernel.Unix:
		return 0, syscall.ENOTCONN
	case to == kernel.Addr{} && !d.connected:
		return 0, syscall.EDESTADDRREQ
	case to != kernel.Addr{} && to.Family() != d.family:
		return 0, syscall.EAFNOSUPPORT
	case d.family == kernel.Unix:
		return d.sendUnix(b, to)
	case len(b) > maxDatagram:
		return 0, syscall.EMSGSIZE
	}
	target := d.remote
	if to != (kernel.Addr{}) {
		target = onWire(to)
	}
	if target.Addr() == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return d.broadcast(b, target)
	}
	host, ip, source := d.host.route(target.Addr())
	if host == nil {
		return 0, syscall.ENETUNREACH
	}
	if err := d.bindAny(unspecified(d.family)); err != nil {
		return 0, err
	}
	return d.dispatch(host, b, kernel.Addr{AddrPort: netip.AddrPortFrom(ip, target.Port())}, source)
}

func unspecified(f kernel.Family) netip.Addr {
	if f == kernel.IPv6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// broadcast sends a datagram to the first IPv4 address of each host.
func (d *dgram) broadcast(b []byte, to kernel.Addr) (int, error) {
	if !d.on(kernel.Broadcast) {
		return 0, syscall.EACCES
	}
	if err := d.bindAny(unspecified(d.family)); err != nil {
		return 0, err
	}
	for _, h := range d.w().hosts {
		i := slices.IndexFunc(h.addrs, func(ip netip.Addr) bool { return ip.Unmap().Is4() })
		if i < 0 {
			continue
		}
		_, target, source := d.host.route(h.addrs[i].Unmap())
		if !source.IsValid() {
			continue
		}
		if n, err := d.dispatch(h, b, kernel.Addr{AddrPort: netip.AddrPortFrom(target, to.Port())}, source); err != nil {
			return n, err
		}
	}
	return len(b), nil
}

// dispatch sends a datagram, which may be lost, duplicated or delayed.
func (d *dgram) dispatch(host *Host, b []byte, to kernel.Addr, source netip.Addr) (int, error) {
	w, link := d.w(), d.w().Link(d.host, host)
	if link.Rate > 0 {
		if d.unsent+len(b) > int(d.options[kernel.SendBuffer]) && d.unsent > 0 {
			d.writerWaits = true
			return 0, syscall.EAGAIN
		}
	}
	from := d.local
	if from.Addr().IsUnspecified() {
		from.AddrPort = netip.AddrPortFrom(source, from.Port())
	}
	p := &packet{data: append([]byte(nil), b...), from: from, to: to, sent: w.Now(), sender: d, target: host}
	left := link.depart(len(b) + datagramHead)
	if link.Rate > 0 {
		d.unsent += len(b)
		w.at(left, packetLeft, p, 0, 0)
	}
	switch {
	case link.Down:
		p.dropped("partition")
		return len(b), nil
	case link.loses():
		p.dropped("lost")
		return len(b), nil
	}
	if link.immediate() { // as on a real host, the result is known when the call returns
		packetArrives(p, 0, 0)
		return len(b), nil
	}
	w.at(left+link.travel()+link.extraDelay(), packetArrives, p, 0, 0)
	if link.doubles() {
		w.at(left+link.travel()+link.extraDelay(), packetArrives, p, 1, 0)
	}
	return len(b), nil
}

// datagramHead is the size of the headers of a datagram, for links with a bandwidth.
const datagramHead = 28

// extraDelay draws an additional delay, so that later datagrams overtake this one.
func (l *Link) extraDelay() time.Duration {
	if !l.chance(l.Reorder, l.w.faultRates.Reorder) {
		return 0
	}
	return l.travel() + l.travel()
}

func packetLeft(on any, _, _ uint64) {
	p := on.(*packet)
	d := p.sender
	d.unsent -= len(p.data)
	if d.writerWaits && d.unsent*2 <= int(d.options[kernel.SendBuffer]) {
		d.writerWaits = false
		d.file.changed(out)
	}
}

func (p *packet) dropped(why string) {
	w := p.target.w
	e := traceEvent{kind: Dropped, travel: w.Now() - p.sent, from: p.sender.host.id, to: p.target.id, port: p.to.Port(), size: int32(len(p.data)), note: why}
	e.keep(&w.trace, p.data)
	w.trace.add(w, e)
}

func packetArrives(on any, again, _ uint64) {
	p := on.(*packet)
	h, w := p.target, p.target.w
	if h.down {
		p.dropped("host is down")
		return
	}
	s := h.find(kernel.Datagram, p.to, p.from, func(*socket) bool { return true })
	if s == nil {
		p.dropped("no socket")
		back := w.Link(h, p.sender.host)
		switch {
		case !p.sender.connected || back.Down:
		case back.immediate():
			unreachable(p, 0, 0)
		default:
			w.at(w.Now()+back.travel(), unreachable, p, 0, 0)
		}
		return
	}
	d := s.file.object.(*dgram)
	if d.queuedBytes+len(p.data) > int(d.options[kernel.RecvBuffer]) || d.shutRead {
		p.dropped("receive buffer is full")
		return
	}
	note := ""
	if again != 0 {
		note = "duplicate"
	}
	w.trace.datagram(p, note)
	d.take(p)
}

// take adds a datagram to the queue.
func (d *dgram) take(p *packet) {
	d.queue = append(d.queue, p)
	d.queuedBytes += len(p.data)
	d.file.changed(in)
}

// unreachable is the answer to a datagram for an unused port, like ICMP's. Only connected
// sockets get it.
func unreachable(on any, _, _ uint64) {
	p := on.(*packet)
	if d := p.sender; d.file != nil && d.connected && d.remote == p.to {
		d.err = syscall.ECONNREFUSED
		d.file.changed(failed | in | out)
	}
}

func (d *dgram) shutdown(side kernel.Side) error {
	if !d.connected {
		return syscall.ENOTCONN
	}
	d.shutRead = d.shutRead || side != kernel.WriteSide
	d.shutWrite = d.shutWrite || side != kernel.ReadSide
	d.file.changed(d.readiness())
	return nil
}

func (d *dgram) release() {
	d.unbind()
	d.file = nil
	d.queue, d.queuedBytes = nil, 0
	d.peer = nil
	d.wakeWriters()
}

func (d *dgram) reset() {}
