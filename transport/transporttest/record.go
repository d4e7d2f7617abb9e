package transporttest

import (
	"bytes"
	"errors"
	"net"
	"time"

	"github.com/spindleloop/spindle/transport"
)

// script is what one end of a connection does. Nil functions do nothing.
type script struct {
	made   func(e *end)
	data   func(e *end, n int) // e.got says how much there was in all
	eof    func(e *end) bool
	lost   func(e *end)
	pause  func(e *end)
	resume func(e *end)
	buffer int // read into an own buffer of this size
}

// end is one end of a connection: a protocol that does what its script says,
// through methods that know when they are at work, and that watches over what it
// is told.
type end struct {
	w      *world
	name   string
	script script
	c      *transport.Conn

	calling   string // the method of c under way
	made      int
	losses    int
	err       error // of the loss
	ended     bool  // EOFReceived
	wasPaused bool
	cut       bool // aborted or panicked: bytes may be missing on the other side
	deaf      bool // closed: bytes may be missing on this side
	written   int
	got       int
	buf       []byte
	other     *end
	answer    func() // to a connect
	moved     *end   // the end that SetProtocol has put in its place
}

var errTrouble = errors.New("transporttest: trouble")

// callback is the beginning of each of them.
func (e *end) callback(name string, c *transport.Conn) {
	w := e.w
	if e.calling != "" {
		w.complain("%s: %s from inside %s", e.name, name, e.calling)
	}
	if e.losses > 0 {
		w.complain("%s: %s after ConnectionLost", e.name, name)
	}
	if e.made == 0 && name != "ConnectionMade" {
		w.complain("%s: %s before ConnectionMade", e.name, name)
	}
	e.c = c
	switch name {
	case "ConnectionMade":
		if e.made++; e.answer != nil {
			e.answer()
		}
		w.open++
	case "ConnectionLost":
		e.losses++
		w.open--
		w.settled()
	}
	if !w.sys.comes(atCallback) {
		return
	}
	switch w.sys.act {
	case doPanic:
		e.cut, e.deaf = true, true
		panic(errTrouble)
	case doClose:
		// To close is to read no more: two that write to each other and do
		// not read can only wait.
		e.close()
		e.call("SetIdleTimeout", func() { e.c.SetIdleTimeout(time.Minute) })
	case doAbort:
		e.abort()
	case doWriteEOF:
		e.writeEOF()
	case doPause:
		e.pauseFor(1)
	}
}

func (e *end) ConnectionMade(c *transport.Conn) {
	e.callback("ConnectionMade", c)
	if e.script.made != nil {
		e.script.made(e)
	}
}

func (e *end) DataReceived(c *transport.Conn, data []byte) {
	e.take(data)
	e.callback("DataReceived", c)
	if e.script.data != nil {
		e.script.data(e, len(data))
	}
}

// take looks at what has come.
func (e *end) take(data []byte) {
	if len(data) == 0 {
		e.w.complain("%s: no data", e.name)
	}
	if !bytes.Equal(data, pattern(e.got, len(data))) {
		e.w.complain("%s: the bytes from %d to %d are not what was sent there", e.name, e.got, e.got+len(data))
	}
	e.got += len(data)
}

// period is that of what every end sends. It is a prime, so that no lost or doubled
// block goes unnoticed.
const period = 251

var periods = func() []byte {
	p := make([]byte, large+period)
	for i := range p {
		p[i] = byte(i % period)
	}
	return p
}()

// pattern is n bytes of what every end sends, from the i-th on.
func pattern(i, n int) []byte { return periods[i%period:][:n] }

func (e *end) EOFReceived(c *transport.Conn) bool {
	e.callback("EOFReceived", c)
	if e.ended {
		e.w.complain("%s: EOFReceived again", e.name)
	}
	e.ended = true
	return e.script.eof != nil && e.script.eof(e)
}

func (e *end) PauseWriting(c *transport.Conn) {
	e.callback("PauseWriting", c)
	if e.wasPaused {
		e.w.complain("%s: PauseWriting again", e.name)
	}
	e.wasPaused = true
	if e.script.pause != nil {
		e.script.pause(e)
	}
}

func (e *end) ResumeWriting(c *transport.Conn) {
	e.callback("ResumeWriting", c)
	if !e.wasPaused {
		e.w.complain("%s: ResumeWriting again", e.name)
	}
	e.wasPaused = false
	if e.script.resume != nil {
		e.script.resume(e)
	}
}

func (e *end) ConnectionLost(c *transport.Conn, err error) {
	e.err = err
	e.callback("ConnectionLost", c)
	e.write(1) // refused
	e.close()
	e.abort()
	if e.script.lost != nil {
		e.script.lost(e)
	}
}

// bufferedEnd is an end that has a buffer of its own.
type bufferedEnd struct{ *end }

func (e bufferedEnd) Buffer(c *transport.Conn) []byte {
	e.callback("Buffer", c)
	e.buf = make([]byte, e.script.buffer)
	return e.buf
}

func (e bufferedEnd) BufferUpdated(c *transport.Conn, n int) {
	e.take(e.buf[:n])
	e.callback("BufferUpdated", c)
	if e.script.data != nil {
		e.script.data(e.end, n)
	}
}

func (e *end) protocol() transport.Protocol {
	if e.script.buffer > 0 {
		return bufferedEnd{e}
	}
	return e
}

// call is a method of the connection at work.
func (e *end) call(name string, fn func()) {
	outer := e.calling
	e.calling = name
	fn()
	e.calling = outer
}

// write writes the next n bytes of the pattern.
func (e *end) write(n int) bool { return e.writev(n) }

// writev writes the pattern in buffers of these sizes.
func (e *end) writev(sizes ...int) (accepted bool) {
	var bufs [][]byte
	at := e.written
	for _, size := range sizes {
		bufs = append(bufs, pattern(at, size))
		at += size
	}
	e.call("Write", func() {
		closed := e.c.IsClosing()
		var n int
		var err error
		if len(bufs) == 1 {
			n, err = e.c.Write(bufs[0])
		} else {
			n, err = e.c.Writev(bufs)
		}
		switch {
		case err == nil && n == at-e.written && !closed:
			e.written = at
			accepted = true
		case err == nil || n != 0:
			e.w.complain("%s: a write returned %d, %v", e.name, n, err)
		}
	})
	return accepted
}

func (e *end) close() {
	e.deaf = true
	e.call("Close", func() { e.c.Close() })
}

func (e *end) abort() {
	e.deaf = true
	if e.losses == 0 {
		e.cut = true
	}
	e.call("Abort", func() { e.c.Abort() })
}

func (e *end) writeEOF() { e.call("WriteEOF", func() { e.c.WriteEOF() }) }

// turnTime is the unit of a pause.
const turnTime = 10 * time.Millisecond

// pauseFor stops reading for some units of virtual time.
func (e *end) pauseFor(turns int) {
	e.call("PauseReading", func() { e.c.PauseReading() })
	e.w.later(time.Duration(turns)*turnTime, func() {
		e.call("ResumeReading", func() { e.c.ResumeReading() })
	})
}

// afterFlush counts the promise and its being kept.
func (e *end) afterFlush() {
	e.w.owed++
	e.call("AfterFlush", func() {
		e.c.AfterFlush(func(error) {
			e.w.owed--
			if e.calling != "" {
				e.w.complain("%s: a flush told of inside %s", e.name, e.calling)
			}
		})
	})
}

// judge looks at an end when all is over.
func (e *end) judge() {
	w := e.w
	if e.moved != nil {
		e.moved.other = e.other
		*e = *e.moved
	}
	switch {
	case e.made == 0 && e.losses == 0: // connect failed
		return
	case e.made != 1 || e.losses != 1:
		w.complain("%s: made %d times, lost %d times", e.name, e.made, e.losses)
	}
	if e.err != nil && !explained(e.err) {
		w.complain("%s: lost with %T %v", e.name, e.err, e.err)
	}
	o := e.other
	if o == nil || e.deaf || o.cut || e.err != nil || o.err != nil || w.loopClosed {
		return
	}
	if e.got != o.written {
		w.complain("%s: %d of %d bytes came, and no error", e.name, e.got, o.written)
	}
}

// explained tells whether an error is of a kind that ConnectionLost may bring: one
// that package net would return.
func explained(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, net.ErrClosed) || err.Error() == panicked
}

// panicked is what a connection is lost with when a callback of it has panicked.
const panicked = "transport: a callback of the protocol panicked"
