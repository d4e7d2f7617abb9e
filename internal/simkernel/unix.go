package simkernel

import (
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

// unixPath returns the printable form of a name.
func unixPath(path string) string {
	if path[0] == 0 {
		return "@" + path[1:]
	}
	return path
}

// maxPath is the maximal length of a name.
const maxPath = 107

func (h *Host) bindUnix(o socketObject, path string) error {
	path = unixPath(path)
	if len(path) > maxPath {
		return syscall.EINVAL
	}
	if h.unix[path] != nil {
		return syscall.EADDRINUSE
	}
	s := o.base()
	h.unix[path] = o
	s.local, s.bound = kernel.Addr{Path: path}, true
	return nil
}

// unbindUnix releases the name. A real path would stay until it is removed, but there are
// no file operations here that could remove it.
func (h *Host) unbindUnix(s *socket) { delete(h.unix, s.local.Path) }

// unixSocket returns the socket that is bound to a name.
func (h *Host) unixSocket(path string, kind kernel.Type) (socketObject, error) {
	path = unixPath(path)
	o := h.unix[path]
	switch {
	case o == nil && path[0] != '@':
		return nil, syscall.ENOENT
	case o == nil:
		return nil, syscall.ECONNREFUSED
	case o.base().kind != kind:
		return nil, syscall.EPROTOTYPE
	}
	return o, nil
}

func (h *Host) unixDatagram(path string) (*dgram, error) {
	o, err := h.unixSocket(path, kernel.Datagram)
	if err != nil {
		return nil, err
	}
	return o.(*dgram), nil
}

func (c *conn) connectUnix(path string) error {
	o, err := c.host.unixSocket(path, kernel.Stream)
	if err != nil {
		return err
	}
	listener := o.(*conn)
	switch {
	case listener.state != listening:
		return syscall.ECONNREFUSED
	case listener.full():
		return syscall.EAGAIN
	}
	server := listener.newServerEnd(c, listener.local)
	c.state, c.remote = connected, listener.local
	connectPair(c, server, nil, nil)
	c.w().trace.add(c.w(), traceEvent{kind: Connected, from: c.host.id, to: c.host.id, conn: c.id, note: listener.local.Path})
	listener.queue = append(listener.queue, server)
	listener.changed(in)
	return nil
}

// connectUnix connects the socket to the one at an address.
func (d *dgram) connectUnix(a kernel.Addr) error {
	o, err := d.host.unixDatagram(a.Path)
	if err != nil {
		return err
	}
	if !o.receivesFrom(d) {
		return syscall.EPERM
	}
	if d.peer != o {
		d.disconnectUnix()
	}
	d.peer, d.remote, d.connected = o, kernel.Addr{Path: unixPath(a.Path)}, true
	d.file.changed(d.readiness())
	return nil
}

// disconnectUnix ends the connection, if there is one. As on Linux, the socket loses what it
// has received and not read. Its peer fails if it is connected to this socket.
func (d *dgram) disconnectUnix() {
	peer := d.peer
	if peer == nil {
		return
	}
	d.peer, d.remote, d.connected = nil, kernel.Addr{}, false
	if len(d.queue) == 0 {
		return
	}
	d.queue, d.queuedBytes = nil, 0
	d.wakeWriters()
	if peer.peer == d {
		peer.err = syscall.ECONNRESET
		peer.file.changed(failed | in | out)
	}
}

// receivesFrom reports whether a Unix socket takes datagrams of another: of any, or of its
// peer if it is connected.
func (d *dgram) receivesFrom(o *dgram) bool { return d.peer == nil || d.peer == o }

func (d *dgram) sendUnix(b []byte, to kernel.Addr) (int, error) {
	peer := d.peer
	if to != (kernel.Addr{}) {
		var err error
		if peer, err = d.host.unixDatagram(to.Path); err != nil {
			return 0, err
		}
	}
	switch {
	case !peer.receivesFrom(d):
		return 0, syscall.EPERM
	case peer.file == nil:
		d.disconnectUnix()
		return 0, syscall.ECONNREFUSED
	case len(b) > int(d.options[kernel.SendBuffer]):
		return 0, syscall.EMSGSIZE
	case peer.queueFull():
		peer.addBlockedWriter(d)
		return 0, syscall.EAGAIN
	}
	p := &packet{data: append([]byte(nil), b...), from: d.local, sent: d.w().Now(), sender: d, target: d.host}
	d.w().trace.datagram(p, "")
	peer.take(p)
	return len(b), nil
}

// SocketPair makes two connected Unix stream sockets.
func (p *Process) SocketPair() (a, b int, err error) {
	if p.files.open+2 > p.files.limit {
		return -1, -1, syscall.EMFILE
	}
	x := p.newSocket(kernel.Unix, kernel.Stream).(*conn)
	y := p.newSocket(kernel.Unix, kernel.Stream).(*conn)
	x.state, y.state = connected, connected
	connectPair(x, y, nil, nil)
	return x.file.fd, y.file.fd, nil
}

// Pipe makes a pipe.
func (p *Process) Pipe() (r, w int, err error) {
	if p.files.open+2 > p.files.limit {
		return -1, -1, syscall.EMFILE
	}
	p.w.conns++
	f := &flow{w: p.w, id: p.w.conns, sendBuffer: streamBuffer}
	reader, writer := &pipeEnd{p: p, flow: f}, &pipeEnd{p: p, flow: f, writes: true}
	reader.other, writer.other = writer, reader
	f.from, f.to = writer, reader
	reader.file, writer.file = p.open(reader), p.open(writer)
	return reader.file.fd, writer.file.fd, nil
}

// pipeEnd is an end of a pipe.
type pipeEnd struct {
	p      *Process
	file   *file
	flow   *flow
	other  *pipeEnd
	writes bool
}

func (e *pipeEnd) changed(m mask)      { e.file.changed(m) }
func (e *pipeEnd) discards() bool      { return e.file == nil }
func (e *pipeEnd) ignoresEnd() bool    { return false }
func (e *pipeEnd) rejectArrival(*flow) {}
func (e *pipeEnd) timedOut()           {}
func (e *pipeEnd) hostID() int32       { return e.p.host.id }
func (e *pipeEnd) reset()              {}

func (e *pipeEnd) readiness() (m mask) {
	if e.writes {
		if e.other.discards() {
			return out | failed
		}
		if e.flow.writable() {
			return out
		}
		e.flow.writerWaits = true
		return 0
	}
	if e.flow.arrived > e.flow.read {
		m |= in
	}
	if e.other.discards() {
		m |= hungUp
	}
	return m
}

func (e *pipeEnd) recv(b []byte) (int, error) {
	switch {
	case e.writes:
		return 0, syscall.EBADF
	case e.flow.arrived > e.flow.read:
		return e.flow.take(b), nil
	case e.other.discards() || len(b) == 0:
		return 0, nil
	}
	return 0, syscall.EAGAIN
}

func (e *pipeEnd) send(b []byte) (int, error) {
	switch {
	case !e.writes:
		return 0, syscall.EBADF
	case e.other.discards():
		return 0, syscall.EPIPE
	}
	n := e.flow.put(b)
	if n == 0 && len(b) > 0 {
		return 0, syscall.EAGAIN
	}
	e.flow.push()
	return n, nil
}

func (e *pipeEnd) release() {
	e.file = nil
	e.other.changed(in | out | hungUp | failed)
}
