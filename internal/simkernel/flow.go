package simkernel

import "time"

// flow is one direction of a connection. Its positions count bytes from the beginning:
//
//	read ≤ arrived ≤ sent ≤ written
//
// The sender learns from acknowledgements how much has arrived and how far it may send.
// There are no sequence numbers: when a segment is lost, the sender retransmits from the
// receiver's position after a delay that doubles.
//
// A flow without a link belongs to a Unix socket or a pipe: bytes arrive when they are
// written.
type flow struct {
	w        *World
	link     *Link
	back     *Link // for acknowledgements
	from, to flowEnd
	id       uint32 // of the connection, for the trace

	buf                          buffer // bytes from read to written
	read, arrived, sent, written uint64
	acked                        uint64 // arrived, as far as the sender knows
	sendLimit                    uint64 // how far the sender may send, as far as it knows
	advertised                   uint64 // the limit that the receiver last sent
	sendBuffer                   uint64 // size of the sender's buffer
	window                       uint64 // size of the receiver's buffer

	end         end
	writerWaits bool          // a writer waits for space
	stopped     bool          // nothing more is sent or arrives: the connection was reset or timed out
	recovering  bool          // something was lost, and a retransmission is scheduled
	ackLost     bool          // the last acknowledgement was lost, and the sender may know too small a window
	tries       uint8         // retransmissions since the last progress
	last        time.Duration // arrival of the last segment; later ones do not overtake it
}

// end is the state of the end of the stream.
type end uint8

const (
	endOpen    end = iota // more bytes may be written
	endWanted             // no more bytes will be written
	endSent               // the end is in flight
	endArrived            // the receiver has it
	endAcked              // and the sender knows it
)

// flowEnd is the socket or pipe at one end of a flow.
type flowEnd interface {
	// changed reports new readiness.
	changed(m mask)
	// discards reports whether arriving bytes can no longer be read.
	discards() bool
	// ignoresEnd reports whether not even the end of the stream can be noticed.
	ignoresEnd() bool
	// rejectArrival answers bytes that cannot be read.
	rejectArrival(f *flow)
	// timedOut reports that the other end has not answered for too long.
	timedOut()
	hostID() int32
}

// Delays and number of retransmissions. As on Linux, a sender gives up after some fifteen
// minutes.
const (
	firstRetry = 200 * time.Millisecond
	maxRetry   = 2 * time.Minute
	maxTries   = 15
)

// free returns how many bytes fit into the send buffer.
func (f *flow) free() int {
	used := f.written - f.acked
	if used >= f.sendBuffer {
		return 0
	}
	return int(f.sendBuffer - used)
}

// writable reports whether a third of the send buffer is free. A smaller part would wake
// writers too often.
func (f *flow) writable() bool {
	used := f.written - f.acked
	return used <= f.sendBuffer && (f.sendBuffer-used)*2 >= used && used < f.sendBuffer
}

// put writes as many bytes as fit into the send buffer.
func (f *flow) put(b []byte) int {
	n := min(len(b), f.free())
	if n < len(b) {
		f.writerWaits = true
	}
	f.buf.write(b[:n])
	f.written += uint64(n)
	return n
}

// push sends what the receiver has space for.
func (f *flow) push() {
	if f.link == nil {
		f.pushLocal()
		return
	}
	for !f.recovering && !f.stopped && f.sent < min(f.written, f.sendLimit) {
		if !f.link.passes() {
			f.retryLater(int(f.written - f.sent))
			return
		}
		n := f.link.segment(int(min(f.written, f.sendLimit) - f.sent))
		f.sent += uint64(n)
		f.w.at(f.arrival(n), segmentArrives, f, f.sent, f.w.moment())
	}
	if f.ackLost && f.sent == f.sendLimit && f.sent < f.written {
		f.retry()
	}
	if f.end == endWanted && f.sent == f.written && !f.recovering && !f.stopped {
		if !f.link.passes() {
			f.retryLater(0)
			return
		}
		f.end = endSent
		f.w.at(f.arrival(0), endArrives, f, 0, f.w.moment())
	}
}

func (f *flow) pushLocal() {
	if f.stopped {
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

// arrival returns the time at which n bytes that are sent now arrive. They do not overtake
// earlier ones.
func (f *flow) arrival(n int) time.Duration {
	f.last = max(f.last, f.link.depart(n+segmentHead)+f.link.travel())
	return f.last
}

// segmentHead is the size of the headers of a segment, for links with a bandwidth.
const segmentHead = 40

func segmentArrives(on any, upTo, sent uint64) {
	f := on.(*flow)
	switch {
	case f.stopped:
	case f.to.discards():
		f.to.rejectArrival(f)
	case upTo <= f.arrived: // a retransmission of bytes that have arrived
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
	case f.stopped:
	case f.to.ignoresEnd():
		f.to.rejectArrival(f)
	case f.end < endArrived:
		f.end = endArrived
		f.w.trace.add(f.w, traceEvent{kind: Ended, travel: f.w.since(sent), from: f.from.hostID(), to: f.to.hostID(), conn: f.id})
		f.to.changed(in | peerShut)
		f.acknowledge()
	default:
		f.acknowledge()
	}
}

// acknowledge sends the receiver's position to the sender. A lost acknowledgement is not
// sent again: the next one replaces it. A sender that the lost one would have given a window
// makes the receiver send one: see push.
func (f *flow) acknowledge() {
	f.advertised = f.read + f.window
	if f.ackLost = f.back.Down; f.ackLost {
		f.retryLater(0)
		return
	}
	ended := f.arrived<<1 | uint64(b2i(f.end >= endArrived))
	f.w.at(f.w.Now()+f.back.travel(), acknowledged, f, ended, f.advertised)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func acknowledged(on any, n, sendLimit uint64) {
	f := on.(*flow)
	if f.stopped {
		return
	}
	upTo := n >> 1
	if upTo > f.acked || sendLimit > f.sendLimit {
		f.tries = 0
	}
	f.acked, f.sendLimit = max(f.acked, upTo), max(f.sendLimit, sendLimit)
	if n&1 != 0 && f.end == endArrived {
		f.end = endAcked
	}
	f.wakeWriter()
	f.push()
}

// wakeWriter wakes a writer that waits for space, if there is enough.
func (f *flow) wakeWriter() {
	if f.writerWaits && f.writable() {
		f.writerWaits = false
		f.from.changed(out)
	}
}

// take reads bytes that have arrived.
func (f *flow) take(b []byte) int {
	n := f.buf.read(b[:min(uint64(len(b)), f.arrived-f.read)])
	f.read += uint64(n)
	switch {
	case f.link == nil:
		f.acked = f.read
		f.wakeWriter()
	case !f.stopped && !f.to.discards() && f.read+f.window-f.advertised >= f.window/2: // the window has grown enough
		f.acknowledge()
	}
	return n
}

// retryLater records the loss of n bytes and schedules a retransmission.
func (f *flow) retryLater(n int) {
	if f.recovering || f.stopped {
		return
	}
	f.w.trace.add(f.w, traceEvent{kind: Dropped, from: f.from.hostID(), to: f.to.hostID(), conn: f.id, size: int32(n), note: "will be retransmitted"})
	f.retry()
}

// retry schedules a retransmission.
func (f *flow) retry() {
	if f.recovering || f.stopped {
		return
	}
	f.recovering = true
	f.w.at(f.w.Now()+min(firstRetry<<f.tries, maxRetry), retransmit, f, 0, 0)
}

func retransmit(on any, _, _ uint64) {
	f := on.(*flow)
	f.recovering = false
	switch {
	case f.stopped || f.acked == f.written && (f.end == endOpen || f.end == endAcked):
		return
	case f.tries >= maxTries:
		f.stopped = true
		f.from.timedOut()
		return
	}
	f.tries++
	if f.sent == f.written && f.end != endWanted || f.sent >= f.sendLimit {
		f.probe()
		return
	}
	f.push()
}

// probe makes the receiver acknowledge again.
func (f *flow) probe() {
	switch {
	case !f.link.passes():
		f.retryLater(0)
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

// keepBuffer is the maximal size of memory that an empty buffer keeps.
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

// peek returns n bytes at an offset from the first, without reading them.
func (b *buffer) peek(from, n uint64) []byte {
	at := b.head + int(from)
	return b.data[at : at+int(n)]
}
