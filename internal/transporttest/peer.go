package transporttest

import (
	"bytes"
	"errors"
	"net"
	"time"

	"github.com/spindleloop/spindle/transport"
)

// script is the behaviour of one end of a connection. Nil functions do nothing.
type script struct {
	made   func(p *peer)
	data   func(p *peer, n int) // p.received is the total
	eof    func(p *peer) bool
	lost   func(p *peer)
	pause  func(p *peer)
	resume func(p *peer)
	buffer int // if positive, the peer is a BufferedProtocol with a buffer of this size
}

// peer is one end of a connection: a protocol that follows its script. It records which
// method of the Conn is running, and checks the callbacks it gets.
type peer struct {
	run    *run
	name   string
	script script
	c      *transport.Conn

	calling        string // the running method of c
	made           int
	losses         int
	err            error // argument of ConnectionLost
	ended          bool  // EOFReceived was called
	wasPaused      bool
	aborted        bool // aborted or panicked: bytes may be missing on the other side
	stoppedReading bool // closed: bytes may be missing on this side
	written        int
	received       int
	buf            []byte
	other          *peer
	onConnect      func() // called by the ConnectionMade of a Connect
	successor      *peer  // the protocol that replaced it
}

var errInjected = errors.New("transporttest: injected panic")

// callback starts every callback: it checks the order and injects faults.
func (p *peer) callback(name string, c *transport.Conn) {
	r := p.run
	if p.calling != "" {
		r.problem("%s: %s from inside %s", p.name, name, p.calling)
	}
	if p.losses > 0 {
		r.problem("%s: %s after ConnectionLost", p.name, name)
	}
	if p.made == 0 && name != "ConnectionMade" {
		r.problem("%s: %s before ConnectionMade", p.name, name)
	}
	p.c = c
	switch name {
	case "ConnectionMade":
		if p.made++; p.onConnect != nil {
			p.onConnect()
		}
		r.open++
	case "ConnectionLost":
		p.losses++
		r.open--
		r.checkIdle()
	}
	if !r.kernel.injects(atCallback) {
		return
	}
	switch r.kernel.action {
	case doPanic:
		p.aborted, p.stoppedReading = true, true
		panic(errInjected)
	case doClose:
		// A closed connection reads no more. Two peers that write to each other
		// and do not read would wait forever.
		p.close()
		p.call("SetIdleTimeout", func() { p.c.SetIdleTimeout(time.Minute) })
	case doAbort:
		p.abort()
	case doWriteEOF:
		p.writeEOF()
	case doPause:
		p.pauseFor(1)
	}
}

func (p *peer) ConnectionMade(c *transport.Conn) {
	p.callback("ConnectionMade", c)
	if p.script.made != nil {
		p.script.made(p)
	}
}

func (p *peer) DataReceived(c *transport.Conn, data []byte) {
	p.checkData(data)
	p.callback("DataReceived", c)
	if p.script.data != nil {
		p.script.data(p, len(data))
	}
}

// checkData compares received data with the pattern.
func (p *peer) checkData(data []byte) {
	if len(data) == 0 {
		p.run.problem("%s: DataReceived without data", p.name)
	}
	if !bytes.Equal(data, pattern(p.received, len(data))) {
		p.run.problem("%s: the bytes from %d to %d differ from the ones sent", p.name, p.received, p.received+len(data))
	}
	p.received += len(data)
}

// period is the period of the pattern that every peer sends. It is a prime, so that no
// lost or duplicated block goes unnoticed.
const period = 251

var periods = func() []byte {
	p := make([]byte, largeSize+period)
	for i := range p {
		p[i] = byte(i % period)
	}
	return p
}()

// pattern returns n bytes of what every peer sends, from the i-th on.
func pattern(i, n int) []byte { return periods[i%period:][:n] }

func (p *peer) EOFReceived(c *transport.Conn) bool {
	p.callback("EOFReceived", c)
	if p.ended {
		p.run.problem("%s: EOFReceived again", p.name)
	}
	p.ended = true
	return p.script.eof != nil && p.script.eof(p)
}

func (p *peer) PauseWriting(c *transport.Conn) {
	p.callback("PauseWriting", c)
	if p.wasPaused {
		p.run.problem("%s: PauseWriting again", p.name)
	}
	p.wasPaused = true
	if p.script.pause != nil {
		p.script.pause(p)
	}
}

func (p *peer) ResumeWriting(c *transport.Conn) {
	p.callback("ResumeWriting", c)
	if !p.wasPaused {
		p.run.problem("%s: ResumeWriting again", p.name)
	}
	p.wasPaused = false
	if p.script.resume != nil {
		p.script.resume(p)
	}
}

func (p *peer) ConnectionLost(c *transport.Conn, err error) {
	p.err = err
	p.callback("ConnectionLost", c)
	p.write(1) // must be refused
	p.close()
	p.abort()
	if p.script.lost != nil {
		p.script.lost(p)
	}
}

// bufferedPeer is a peer with a buffer of its own.
type bufferedPeer struct{ *peer }

func (p bufferedPeer) Buffer(c *transport.Conn) []byte {
	p.callback("Buffer", c)
	p.buf = make([]byte, p.script.buffer)
	return p.buf
}

func (p bufferedPeer) BufferUpdated(c *transport.Conn, n int) {
	p.checkData(p.buf[:n])
	p.callback("BufferUpdated", c)
	if p.script.data != nil {
		p.script.data(p.peer, n)
	}
}

func (p *peer) protocol() transport.Protocol {
	if p.script.buffer > 0 {
		return bufferedPeer{p}
	}
	return p
}

// call runs fn, which calls the named method of the connection.
func (p *peer) call(name string, fn func()) {
	outer := p.calling
	p.calling = name
	fn()
	p.calling = outer
}

// write writes the next n bytes of the pattern.
func (p *peer) write(n int) bool { return p.writev(n) }

// writev writes the next bytes of the pattern in buffers of these sizes. It reports
// whether the connection took them.
func (p *peer) writev(sizes ...int) (accepted bool) {
	var bufs [][]byte
	at := p.written
	for _, size := range sizes {
		bufs = append(bufs, pattern(at, size))
		at += size
	}
	p.call("Write", func() {
		closed := p.c.IsClosing()
		var n int
		var err error
		if len(bufs) == 1 {
			n, err = p.c.Write(bufs[0])
		} else {
			n, err = p.c.Writev(bufs)
		}
		switch {
		case err == nil && n == at-p.written && !closed:
			p.written = at
			accepted = true
		case err == nil || n != 0:
			p.run.problem("%s: a write returned %d, %v", p.name, n, err)
		}
	})
	return accepted
}

func (p *peer) close() {
	p.stoppedReading = true
	p.call("Close", func() { p.c.Close() })
}

func (p *peer) abort() {
	p.stoppedReading = true
	if p.losses == 0 {
		p.aborted = true
	}
	p.call("Abort", func() { p.c.Abort() })
}

func (p *peer) writeEOF() { p.call("WriteEOF", func() { p.c.WriteEOF() }) }

// tick is the unit of a pause.
const tick = 10 * time.Millisecond

// pauseFor pauses reading for some ticks of virtual time.
func (p *peer) pauseFor(ticks int) {
	p.call("PauseReading", func() { p.c.PauseReading() })
	p.run.later(time.Duration(ticks)*tick, func() {
		p.call("ResumeReading", func() { p.c.ResumeReading() })
	})
}

// afterFlush calls AfterFlush and counts the pending callbacks.
func (p *peer) afterFlush() {
	p.run.pendingFlushes++
	p.call("AfterFlush", func() {
		p.c.AfterFlush(func(error) {
			p.run.pendingFlushes--
			if p.calling != "" {
				p.run.problem("%s: an AfterFlush callback inside %s", p.name, p.calling)
			}
		})
	})
}

// check checks the peer at the end of the run.
func (p *peer) check() {
	r := p.run
	if p.successor != nil {
		p.successor.other = p.other
		*p = *p.successor
	}
	switch {
	case p.made == 0 && p.losses == 0: // connect failed
		return
	case p.made != 1 || p.losses != 1:
		r.problem("%s: made %d times, lost %d times", p.name, p.made, p.losses)
	}
	if p.err != nil && !isNetError(p.err) {
		r.problem("%s: lost with %T %v", p.name, p.err, p.err)
	}
	o := p.other
	if o == nil || p.stoppedReading || o.aborted || p.err != nil || o.err != nil || r.loopClosed {
		return
	}
	if p.received != o.written {
		r.problem("%s: %d of %d bytes arrived, and no error", p.name, p.received, o.written)
	}
}

// isNetError reports whether ConnectionLost may get err: an error that package net would
// return, or the error of a panic.
func isNetError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, net.ErrClosed) || err.Error() == panicked
}

// panicked is the text of the error of a connection after a callback has panicked.
const panicked = "transport: a callback of the protocol panicked"
