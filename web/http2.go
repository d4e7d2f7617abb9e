package web

import (
	"crypto/tls"
	"net/http"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/http2"
)

// h2Conn is what an HTTP/2 connection has besides its conn: phases, time-outs and
// backpressure are those of conn. Package http2 keeps the streams and windows. Loop goroutine only.
//
// What is received in one callback is handled as a whole, and then everything that it has led
// to is sent with one write: a turn of the loop is a batch.
type h2Conn struct {
	c     *conn
	fc    *http2.Conn
	extra connExtra // of c

	waiting []*h2Stream // have data that windows or the peer do not take yet
	running int32       // handlers that have not returned, also of streams that were reset
	sent    uint32      // bytes of bodies, modulo 1<<32, for stalled
	dropped int32       // bytes that came after a mistake of the peer
	marks   h2Marks
}

// h2Marks are facts about an HTTP/2 connection.
type h2Marks uint8

const (
	h2Parsing h2Marks = 1 << iota // receive is on the stack
	h2Dirty                       // in loopState.dirty
	h2Yields                      // the rest of what was received waits for a later turn
	h2Failed                      // the peer has made a mistake, which ends the connection
)

func (h *h2Conn) is(m h2Marks) bool { return h.marks&m != 0 }

// h2 returns what an HTTP/2 connection has, nil for HTTP/1.1.
func (c *conn) h2() *h2Conn {
	if c.input != inputFrames || c.extra == nil {
		return nil
	}
	return c.extra.h2
}

// protocols returns what the server speaks: HTTP/1.1, and HTTP/2 over TLS, by default.
func (s *Server) protocols() http.Protocols { return protocolsOr(s.Protocols) }

// h2Config returns the limits of HTTP/2 connections.
func (s *Server) h2Config() http2.Config {
	o := http2.Config{Role: http2.Server, HeaderBytes: s.MaxHeaderBytes, FieldCount: s.MaxHeaderFields, ExtendedConnect: s.ExtendedConnect}
	if c := s.HTTP2; c != nil {
		o.MaxStreams = c.MaxConcurrentStreams
		o.MaxFrame = c.MaxReadFrameSize
		o.ConnWindow, o.StreamWindow = c.MaxReceiveBufferPerConnection, c.MaxReceiveBufferPerStream
		o.TableBytes = c.MaxDecoderHeaderTableSize
	}
	return o
}

// nextProtos returns the protocols of a TLS handshake.
func nextProtos(p http.Protocols) (names []string) {
	if p.HTTP2() {
		names = append(names, "h2")
	}
	if p.HTTP1() {
		names = append(names, "http/1.1")
	}
	return names
}

// chooseProtocol decides what a new connection speaks, if that is not HTTP/1.1.
func (c *conn) chooseProtocol(state *tls.ConnectionState) {
	p := c.st.sv.protocols
	switch {
	case state != nil && state.NegotiatedProtocol == "h2":
		c.beginFrames()
	case state != nil && !p.HTTP1(): // the client does not know ALPN
		c.enter(connClosing)
		c.tc.Close()
	case state == nil && p.UnencryptedHTTP2():
		c.expect(inputPreface)
	}
}

// beginFrames makes the connection one of HTTP/2.
func (c *conn) beginFrames() {
	st := c.st
	c.expect(inputFrames)
	if st.h2 == nil {
		st.h2 = http2.NewShared(st.sv.server.h2Config())
	}
	h := &h2Conn{c: c}
	h.extra.h2 = h
	c.extra = &h.extra
	h.fc = st.h2.NewConn(st.takeFrames())
	h.touch()
}

// sniff looks for the preface of HTTP/2 at the beginning of a plain connection.
func (c *conn) sniff(data []byte) {
	if c.hasKept() { // a part of the preface
		data = append(c.extra.kept, data...)
		c.extra.kept = nil
	}
	n := min(len(data), len(http2.Preface))
	switch {
	case string(data[:n]) != http2.Preface[:n]:
		c.expect(inputHead)
		if !c.st.sv.protocols.HTTP1() {
			c.hangUp()
			return
		}
		c.consume(data)
	case n == len(http2.Preface):
		c.beginFrames()
		c.h2().receive(data)
	default:
		c.keep(data)
	}
}

// touch prepares for frames to be sent, at the latest at the end of the turn.
func (h *h2Conn) touch() {
	st := h.c.st
	if h.fc.Out == nil {
		h.fc.Out = st.takeFrames()
	}
	if h.marks&(h2Parsing|h2Dirty) != 0 {
		return
	}
	h.marks |= h2Dirty
	if len(st.dirty) == 0 {
		st.l.Internal().CallSoon(atclose.Run, st.flushFunc)
	}
	st.dirty = append(st.dirty, h)
}

// flushDirty sends the frames of all connections that have some.
func (st *loopState) flushDirty() {
	for i, h := range st.dirty {
		st.dirty[i] = nil
		h.marks &^= h2Dirty
		h.flush()
	}
	st.dirty = st.dirty[:0]
}

// flush sends the frames that were made.
func (h *h2Conn) flush() {
	c := h.c
	if len(h.fc.Out) > 0 && (c.phase == connOpen || c.phase == connLingering) {
		c.tc.Write(h.fc.Out)
		if c.phase == connOpen && c.tc.Unsent() > highWater {
			c.holdWrites()
		}
	}
	c.st.giveFrames(h.fc.Out)
	h.fc.Out = nil
}

// framesSize is the size of a buffer for frames. It holds the answers of many requests.
const framesSize = 16 << 10

func (st *loopState) takeFrames() []byte {
	if last := len(st.frameBufs) - 1; last >= 0 {
		b := st.frameBufs[last]
		st.frameBufs = st.frameBufs[:last]
		return b
	}
	return make([]byte, 0, framesSize)
}

func (st *loopState) giveFrames(b []byte) {
	if cap(b) >= framesSize && cap(b) <= 4*framesSize && len(st.frameBufs) < keepSpare {
		st.frameBufs = append(st.frameBufs, b[:0])
	}
}

// receive handles received bytes.
func (h *h2Conn) receive(data []byte) {
	c, st := h.c, h.c.st
	h.marks |= h2Parsing
	h.touch()
	h.fc.Now = st.l.Internal().TurnTime()
	defer h.recoverLean()
	requests, pumps := 0, false
	for c.phase == connOpen && !h.choked() {
		n, event, err := h.fc.Parse(data)
		data = data[n:]
		if err != nil {
			h.fail(err)
			break
		}
		if event == http2.More {
			break
		}
		switch event {
		case http2.Writable:
			pumps = true
		case http2.Hasty:
			h.pause()
		case http2.Head:
			h.head()
			if requests++; requests == batch && len(data) > 0 {
				h.yield()
			}
		default:
			h.handle(event)
		}
		if h.is(h2Yields) || len(h.fc.Out) > framesSize {
			h.flush()
			h.fc.Out = st.takeFrames()
		}
		if h.is(h2Yields) {
			break
		}
	}
	if len(data) > 0 && c.phase == connOpen {
		c.keep(data)
	}
	h.startBegun()
	if pumps {
		h.pump()
	}
	h.marks &^= h2Parsing
	h.settle()
	h.flush()
}

// choked reports whether so much is unsent that nothing more is read: answers to what the
// peer sends would only add to it. Bodies stop long before.
func (h *h2Conn) choked() bool {
	return h.c.output == outputHeld && h.c.tc.Unsent() > 4*highWater
}

// yield handles the rest of the received bytes in the next turn, so that a client that sends
// very many requests at once does not occupy the loop.
func (h *h2Conn) yield() {
	h.marks |= h2Yields
	h.c.st.l.Internal().CallSoon(atclose.Drop, h.endYield)
}

// pause handles the rest of the received bytes after others were served. A client that sends
// what only makes work takes at most a small share of the loop's time.
func (h *h2Conn) pause() {
	h.marks |= h2Yields
	h.c.st.l.CallLater(http2.HastyPause, h.endYield)
}

func (h *h2Conn) endYield() {
	h.marks &^= h2Yields
	h.resume()
}

// resume continues after a pause: with what was kept, and with data that waits.
func (h *h2Conn) resume() {
	c := h.c
	if c.phase != connOpen || h.is(h2Yields) {
		return
	}
	h.pump()
	if h.choked() {
		return
	}
	kept := c.extra.kept
	c.extra.kept = nil
	c.resumeReading()
	if kept != nil {
		h.receive(kept)
		c.st.giveBuffer(kept)
		return
	}
	h.settle() // pump may have ended the last stream
}

// DataReceived of an HTTP/2 connection.
func (h *h2Conn) dataReceived(data []byte) {
	if h.c.hasKept() || h.is(h2Yields) {
		h.c.keep(data)
		return
	}
	h.receive(data)
}

// recoverLean is deferred by receive. It ends the connection if a lean handler panicked.
func (h *h2Conn) recoverLean() {
	if !h.is(h2Parsing) {
		return
	}
	h.marks &^= h2Parsing
	h.c.st.sv.logPanic(recover(), h.c.remoteAddr())
	h.endStreams(http.ErrAbortHandler)
	if h.c.phase == connOpen {
		h.quit(http2.InternalError)
	}
}

// handle handles an event of a stream, or of the connection.
func (h *h2Conn) handle(event http2.Event) {
	switch event {
	case http2.Data:
		ownerOf(h.fc.Stream()).data(h.fc.Data())
	case http2.End:
		ownerOf(h.fc.Stream()).end(h.fc.Head())
	case http2.Reset, http2.Failed:
		ownerOf(h.fc.Stream()).gone(ErrClientGone)
	case http2.Pong:
		if h.fc.Leaving() && !h.fc.Over() {
			h.fc.LeaveFinally(http2.NoError)
		}
	case http2.Goodbye: // the streams under way are answered, and no others come
		if !h.fc.Over() {
			h.fc.LeaveFinally(http2.NoError)
		}
	}
}
