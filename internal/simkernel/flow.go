package simkernel

import (
	"syscall"
	"time"
)

// flow is one direction of a connection: bytes on their way from one end to the
// other. Positions count bytes since the beginning, and follow each other:
//
//	read ≤ arrived ≤ sent ≤ written
//
// The sender knows of what has arrived, and of how far it may send, only what was
// acknowledged to it. Nothing here is retransmitted byte by byte: a segment that
// does not get through makes the sender try again after a while, and double the
// while each time, from where the receiver is.
//
// A flow without a link is one within a host, Unix sockets and pipes: what is
// written has arrived.
type flow struct {
	w        *World
	link     *Link
	back     *Link // on which acknowledgements travel
	from, to flowEnd
	id       uint32 // of the connection, for the trace

	buf                          buffer // bytes from read to written
	read, arrived, sent, written uint64
	acked                        uint64 // of these the sender knows that they have arrived
	edge                         uint64 // how far the sender may send, as it knows
	told                         uint64 // the same, as the receiver last told
	room                         uint64 // the sender's buffer
	window                       uint64 // the receiver's buffer

	end        end
	cramped    bool          // a writer found no room
	over       bool          // nothing more arrives: reset, or nobody there
	recovering bool          // something was lost; it is tried again at a time
	tries      uint8         // in vain, in a row
	last       time.Duration // when the last segment arrives: none overtakes it
}

// end is how far the end of the bytes has come.
type end uint8

const (
	endOpen    end = iota // there may be more bytes
	endWanted             // there will be none after those written
	endSent               // it is on its way
	endArrived            // the receiver knows
	endAcked              // and the sender knows that
)

// flowEnd is who stands at an end of a flow.
type flowEnd interface {
	// changed tells of readiness.
	changed(m mask)
	// gone tells whether nobody would read what arrives; lost, that there is not
	// even anybody to hear of the end.
	gone() bool
	lost() bool
	// arrivedAtNobody answers what has arrived where nobody is.
	arrivedAtNobody(f *flow)
	// gaveUp tells that the other end has not answered for too long.
	gaveUp(err syscall.Errno)
	hostID() int32
}

// How long the sender waits before it tries again, and how often it does: as long
// as Linux does, some fifteen minutes.
const (
	firstRetry = 200 * time.Millisecond
	mostRetry  = 2 * time.Minute
	mostTries  = 15
)

// free is how much the sender may still write.
func (f *flow) free() int {
	used := f.written - f.acked
	if used >= f.room {
		return 0
	}
	return int(f.room - used)
}

// writable tells whether a third of the sender's buffer is free: not at the first
// byte, or writers would be woken for each.
func (f *flow) writable() bool {
	used := f.written - f.acked
	return used <= f.room && (f.room-used)*2 >= used && used < f.room
}

// put takes what there is room for.
func (f *flow) put(b []byte) int {
	n := min(len(b), f.free())
	if n < len(b) {
		f.cramped = true
	}
	f.buf.write(b[:n])
	f.written += uint64(n)
	return n
}

// push sends what may be sent.
func (f *flow) push() {
	if f.link == nil {
		f.pushLocal()
		return
	}
	for !f.recovering && !f.over && f.sent < min(f.written, f.edge) {
		if !f.link.passes() {
			f.lost(int(f.written - f.sent))
			return
		}
		n := f.link.segment(int(min(f.written, f.edge) - f.sent))
		f.sent += uint64(n)
		f.w.at(f.arrival(n), segmentArrives, f, f.sent, f.w.moment())
	}
	if f.end == endWanted && f.sent == f.written && !f.recovering && !f.over {
		if !f.link.passes() {
			f.lost(0)
			return
		}
		f.end = endSent
		f.w.at(f.arrival(0), endArrives, f, 0, f.w.moment())
	}
}

func (f *flow) pushLocal() {
	if f.over {
		return
	}
	if f.arrived < f.written {
		f.w.trace.data(f, f.written-f.arrived, 0)
		f.arrived, f.sent = f.written, f.written
		f.to.changed(in)
	}
	if f.end == endWanted {
		f.end = endAcked
		f.w.trace.add(f.w, traceEvent{kind: Ended, from: f.from.hostID(), to: f.to.hostID(), conn: f.id})
		f.to.changed(in | peerShut)
	}
}

// arrival is when n bytes that are sent now arrive: never before those in front.
func (f *flow) arrival(n int) time.Duration {
	f.last = max(f.last, f.link.depart(n+segmentHead)+f.link.travel())
	return f.last
}

// segmentHead is how much room the headers of a segment take on a slow line.
const segmentHead = 40

func segmentArrives(on any, upTo, sent uint64) {
	f := on.(*flow)
	switch {
	case f.over:
	case f.to.gone():
		f.to.arrivedAtNobody(f)
	case upTo <= f.arrived: // it was sent again in vain
		f.acknowledge()
	default:
		f.w.trace.data(f, upTo-f.arrived, f.w.since(sent))
		f.arrived = upTo
		f.to.changed(in)
		f.acknowledge()
	}
}

func endArrives(on any, _, sent uint64) {
	f := on.(*flow)
	switch {
	case f.over:
	case f.to.lost():
		f.to.arrivedAtNobody(f)
	case f.end < endArrived:
		f.end = endArrived
		f.w.trace.add(f.w, traceEvent{kind: Ended, travel: f.w.since(sent), from: f.from.hostID(), to: f.to.hostID(), conn: f.id})
		f.to.changed(in | peerShut)
		f.acknowledge()
	default:
		f.acknowledge()
	}
}

// acknowledge tells the sender how far it is.
func (f *flow) acknowledge() {
	f.told = f.read + f.window
	if f.back.Down { // one that is merely lost is made up for by the next
		f.lost(0)
		return
	}
	ended := f.arrived<<1 | uint64(b2i(f.end >= endArrived))
	f.w.at(f.w.Now()+f.back.travel(), acknowledged, f, ended, f.told)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func acknowledged(on any, n, edge uint64) {
	f := on.(*flow)
	if f.over {
		return
	}
	upTo := n >> 1
	if upTo > f.acked || edge > f.edge {
		f.tries = 0
	}
	f.acked, f.edge = max(f.acked, upTo), max(f.edge, edge)
	if n&1 != 0 && f.end == endArrived {
		f.end = endAcked
	}
	f.tellWriter()
	f.push()
}

// tellWriter wakes a writer who found no room, once there is enough.
func (f *flow) tellWriter() {
	if f.cramped && f.writable() {
		f.cramped = false
		f.from.changed(out)
	}
}

// take reads what has arrived.
func (f *flow) take(b []byte) int {
	n := f.buf.read(b[:min(uint64(len(b)), f.arrived-f.read)])
	f.read += uint64(n)
	switch {
	case f.link == nil:
		f.acked = f.read
		f.tellWriter()
	case !f.over && f.read+f.window-f.told >= f.window/2: // worth telling
		f.acknowledge()
	}
	return n
}

// lost takes note of something that did not get through, and has it tried again.
func (f *flow) lost(n int) {
	if f.recovering || f.over {
		return
	}
	f.w.trace.add(f.w, traceEvent{kind: Dropped, from: f.from.hostID(), to: f.to.hostID(), conn: f.id, size: int32(n), note: "will be sent again"})
	f.recovering = true
	f.w.at(f.w.Now()+min(firstRetry<<f.tries, mostRetry), tryAgain, f, 0, 0)
}

func tryAgain(on any, _, _ uint64) {
	f := on.(*flow)
	f.recovering = false
	switch {
	case f.over || f.acked == f.written && (f.end == endOpen || f.end == endAcked):
		return
	case f.tries >= mostTries:
		f.over = true
		f.from.gaveUp(syscall.ETIMEDOUT)
		return
	}
	f.tries++
	if f.sent == f.written && f.end != endWanted || f.sent >= f.edge {
		f.probe()
		return
	}
	f.push()
}

// probe has the receiver acknowledge again.
func (f *flow) probe() {
	switch {
	case !f.link.passes():
		f.lost(0)
	case f.end >= endSent:
		f.w.at(f.arrival(0), endArrives, f, 0, f.w.moment())
	default:
		f.w.at(f.arrival(0), segmentArrives, f, f.sent, f.w.moment())
	}
}

// buffer is a queue of bytes.
type buffer struct {
	data []byte
	head int
}

// keepBuffer is how much memory an empty buffer keeps.
const keepBuffer = 4 << 10

func (b *buffer) write(p []byte) {
	if len(b.data)+len(p) > cap(b.data) && b.head > 0 {
		n := copy(b.data, b.data[b.head:])
		b.data, b.head = b.data[:n], 0
	}
	b.data = append(b.data, p...)
}

func (b *buffer) read(p []byte) int {
	n := copy(p, b.data[b.head:])
	b.head += n
	if b.head == len(b.data) {
		b.data, b.head = b.data[:0], 0
		if cap(b.data) > keepBuffer {
			b.data = nil
		}
	}
	return n
}

// peek is the bytes from a position on, counted from the first.
func (b *buffer) peek(from, n uint64) []byte {
	at := b.head + int(from)
	return b.data[at : at+int(n)]
}
