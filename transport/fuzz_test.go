package transport_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// FuzzConn runs scripts: every pair of bytes is an action of a connection or of its
// peer, a bare socket. A simple model predicts the result.
func FuzzConn(f *testing.F) {
	f.Add([]byte{0, 0, 5, 9, 1, 3, 0, 12, 0})
	f.Add([]byte{1, 8, 200, 12, 0, 6, 0, 8, 9, 11, 0, 12, 0, 7, 0, 12, 0})
	f.Add([]byte{0, 1, 255, 13, 0, 3, 0, 9, 255, 12, 0, 9, 255, 12, 0})
	f.Add([]byte{1, 10, 0, 12, 0, 1, 255, 12, 0, 9, 255, 5, 0, 9, 255, 9, 255})
	f.Add([]byte{2, 14, 9, 1, 250, 12, 0, 9, 255, 12, 0, 1, 20, 11, 0, 12, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > maxScript {
			return // longer scripts find nothing else, only more slowly
		}
		if err := playScript(t, script); err != nil {
			t.Error(err)
		}
	})
}

// maxScript is the maximum length of a script.
const maxScript = 60

// TestRandomScripts runs scripts from a fixed seed.
func TestRandomScripts(t *testing.T) {
	n := 2000
	if short.UnderRace {
		n = 400
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for range short.Seeds(n) {
		script := make([]byte, 1+2*rng.IntN(maxScript/2))
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		if err := playScript(t, script); err != nil {
			t.Fatalf("%v: %v", script, err)
		}
	}
}

// model is a connection, its peer, and their expected state.
type model struct {
	spy
	l    *loop.Loop
	k    *kernel.Kernel
	c    *transport.Conn
	peer int // -1 once it is closed

	echo, keepOpen       bool // behaviour of the protocol
	paused, closed, shut bool // methods it has called
	aborted              bool
	peerShut, eofSeen    bool
	sent, got            int // bytes sent by the peer, and received from it
	written, read        int // bytes written to the peer, and read by it
	flushes, flushed     int
	high, low            int
	err                  error // of ConnectionLost
	failure              error
}

func (m *model) fail(format string, args ...any) {
	if m.failure == nil {
		m.failure = fmt.Errorf(format, args...)
	}
}

func playScript(t testing.TB, script []byte) error {
	if len(script) == 0 {
		return nil
	}
	backends := kernel.Backends()
	k, err := kernel.Open(backends[int(script[0])%len(backends)])
	if err != nil {
		t.Fatal(err)
	}
	l, err := loop.New(loop.Internal().WithKernel(loop.Options{Watchdog: -1}, k))
	if err != nil {
		t.Fatal(err)
	}
	m := &model{l: l, k: k, keepOpen: script[0]&2 != 0, echo: script[0]&4 != 0, high: 64 << 10, low: 16 << 10}
	m.spy = spy{tb: t, made: func(c *transport.Conn) { m.c = c }, data: m.data, eof: m.eof, lost: m.connectionLost}
	s, err := transport.Listen(l, "unix", abstract(), transport.Options{Protocol: func() transport.Protocol { return m }})
	if err != nil {
		t.Fatal(err)
	}
	if m.peer, err = k.Socket(kernel.Unix, kernel.Stream); err != nil {
		t.Fatal(err)
	}
	if err := k.Connect(m.peer, kernel.Addr{Path: s.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	m.runUntilIdle()
	for rest := script[1:]; len(rest) > 1 && m.failure == nil; rest = rest[2:] {
		m.act(rest[0]%16, int(rest[1]))
		m.runUntilIdle()
		m.check()
	}
	m.finish()
	s.Close()
	sockets := sock.RegistryOf(l)
	if stats := l.Stats(); stats.Timers != 0 || stats.FDs != 0 || stats.Ready != 0 {
		m.fail("left in the loop: %+v", stats)
	}
	if err := l.Close(); err != nil {
		m.fail("close: %v", err)
	}
	if sockets.Open() != 0 {
		m.fail("%d sockets left", sockets.Open())
	}
	return m.failure
}

func (m *model) data(c *transport.Conn, data []byte) {
	if m.paused || m.closed {
		m.fail("DataReceived with paused %v, closed %v", m.paused, m.closed)
	}
	for _, b := range data {
		if b != byte(m.got%251) {
			m.fail("received byte %d is wrong", m.got)
		}
		m.got++
	}
	if m.echo {
		m.write(len(data))
	}
}

func (m *model) eof(c *transport.Conn) bool {
	if m.eofSeen = true; !m.peerShut && m.peer >= 0 {
		m.fail("EOFReceived, and the peer has not closed")
	}
	if !m.keepOpen {
		m.closed = true
	}
	return m.keepOpen
}

func (m *model) connectionLost(c *transport.Conn, err error) {
	m.err = err
	if err == nil && !m.closed && !m.aborted {
		m.fail("lost without a cause")
	}
	if err != nil && m.peer >= 0 {
		m.fail("lost with %v, and the peer is open", err)
	}
}

// write writes the next n bytes and checks the result.
func (m *model) write(n int, sizes ...int) {
	gone := m.c.IsClosing()
	if gone != (m.closed || m.aborted || m.isLost) && m.peer >= 0 {
		m.fail("IsClosing is %v", gone)
	}
	p := pattern(m.written, n)
	var err error
	if len(sizes) == 0 {
		n, err = m.c.Write(p)
	} else {
		var bufs [][]byte
		for rest := p; len(rest) > 0; {
			size := min(sizes[len(bufs)%len(sizes)], len(rest))
			bufs = append(bufs, rest[:size])
			rest = rest[size:]
		}
		n, err = m.c.Writev(bufs)
	}
	if refused := gone || m.shut; refused != (err != nil) || n != len(p) != refused && len(p) > 0 {
		m.fail("a write of %d returned %d, %v", len(p), n, err)
	}
	if err == nil {
		m.written += n
	}
}

// act runs one step of a script.
func (m *model) act(op byte, arg int) {
	switch op {
	case 0:
		m.write(arg)
	case 1:
		m.write(arg * 1024)
	case 2:
		m.write(arg*300, 1, 100, 5000, 0+1+arg)
	case 3:
		m.closed = true
		m.c.Close()
	case 4:
		m.aborted = true
		m.c.Abort()
	case 5:
		m.shut = true
		m.c.WriteEOF()
	case 6:
		m.paused = true
		m.c.PauseReading()
	case 7:
		m.paused = false
		m.c.ResumeReading()
	case 8:
		m.peerWrites(arg * 64)
	case 9:
		m.peerReads(arg * 2048)
	case 10:
		if m.peer >= 0 {
			m.peerShut = true
			m.k.Shutdown(m.peer, kernel.WriteSide)
		}
	case 11:
		m.peerCloses()
	case 12: // several in one turn
		m.write(arg)
		m.write(arg * 40)
		m.closed = true
		m.c.Close()
	case 13:
		m.flushes++
		m.c.AfterFlush(func(error) { m.flushed++ })
	case 14:
		m.high, m.low = 1+arg*512, arg
		m.c.SetWriteLimits(m.high, m.low)
	case 15:
		m.echo = !m.echo
	}
}

func (m *model) peerWrites(n int) {
	if m.peer < 0 || m.peerShut {
		return
	}
	if n, err := m.k.Send(m.peer, pattern(m.sent, n)); err == nil {
		m.sent += n
	}
}

// peerReads reads at most n bytes and returns how many it got.
func (m *model) peerReads(n int) int {
	if m.peer < 0 || n == 0 {
		return 0
	}
	buf := make([]byte, n)
	n, err := m.k.Recv(m.peer, buf)
	if n == 0 && err != syscall.EAGAIN && !m.closed && !m.shut && !m.aborted && !m.isLost {
		m.fail("the peer reads EOF, %v", err)
	}
	for _, b := range buf[:n] {
		if b != byte(m.read%251) {
			m.fail("byte %d that the peer read is wrong", m.read)
			break
		}
		m.read++
	}
	return n
}

func (m *model) peerCloses() {
	if m.peer >= 0 {
		m.k.CloseFD(m.peer)
		m.peer = -1
	}
}

// runUntilIdle runs the loop until there is nothing to do.
func (m *model) runUntilIdle() {
	for range 5000 {
		n, err := m.l.RunOnce(0)
		if err != nil {
			m.fail("run: %v", err)
		}
		if n == 0 {
			return
		}
	}
	m.fail("the loop spins")
}

// check compares the connection with the model when there is nothing to do.
func (m *model) check() {
	if m.aborted && !m.isLost {
		m.fail("aborted and not lost")
	}
	if m.isLost {
		if m.flushed != m.flushes {
			m.fail("%d of %d AfterFlush callbacks ran", m.flushed, m.flushes)
		}
		return
	}
	unsent := m.c.Unsent()
	switch {
	case m.closed && unsent == 0:
		m.fail("closed with everything sent, and not lost")
	case !m.closed && !m.paused && m.got != m.sent:
		m.fail("%d of %d bytes received", m.got, m.sent)
	case !m.closed && !m.paused && m.peerShut && !m.eofSeen:
		m.fail("EOFReceived was not called")
	case !m.closed && !m.paused && m.peer < 0 && !m.eofSeen:
		m.fail("the peer is closed, and the connection is not lost")
	case unsent > m.high && !m.isPaused:
		m.fail("%d unsent bytes, and PauseWriting was not called", unsent)
	case unsent <= m.low && m.isPaused:
		m.fail("%d unsent bytes, and ResumeWriting was not called", unsent)
	case unsent == 0 && m.flushed != m.flushes:
		m.fail("%d of %d AfterFlush callbacks ran", m.flushed, m.flushes)
	}
}

// finish lets the peer read everything, and closes both ends.
func (m *model) finish() {
	for m.failure == nil && m.peerReads(1<<20) > 0 {
		m.runUntilIdle()
	}
	m.runUntilIdle()
	m.check()
	if m.peer >= 0 && !m.aborted && m.read != m.written {
		m.fail("%d of %d bytes arrived", m.read, m.written)
	}
	m.peerCloses()
	m.aborted = true
	m.c.Abort()
	m.runUntilIdle()
	if !m.isLost {
		m.fail("never lost")
	}
	m.check()
}
