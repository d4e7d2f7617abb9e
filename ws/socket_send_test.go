package ws_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/ws"
)

// TestSlowPeers checks that the data buffered for a peer that does not read is
// bounded. Depending on the options, the connection is closed or messages are
// dropped.
func TestSlowPeers(t *testing.T) {
	const limit = 256 << 10
	message := make([]byte, 8<<10)
	t.Run("cut off", func(t *testing.T) {
		h := &socketEcho{onMessage: func(s *ws.Socket, kind ws.Kind, _ []byte) {
			for range 100_000 { // far more than sockets buffer
				if err := s.Send(ws.Binary, message); err != nil {
					if err != ws.ErrSlow {
						t.Errorf("Send: %v", err)
					}
					return
				}
				if s.Conn().Unsent() > limit+len(message)+100 {
					t.Errorf("%d bytes are unsent", s.Conn().Unsent())
				}
			}
			t.Error("Send never failed")
		}}
		p := socketWith(t, ws.Options{UnsentLimit: limit}, h)
		p.send(p.frame(fin|text, "go"))
		if err := p.end(); err != ws.ErrSlow {
			t.Errorf("closed with %v", err)
		}
	})
	t.Run("drop", func(t *testing.T) {
		sent := 0
		h := &socketEcho{onMessage: func(s *ws.Socket, kind ws.Kind, _ []byte) {
			for s.Send(ws.Binary, message) == nil {
				sent++
			}
			if err := s.Send(ws.Binary, message); err != ws.ErrSlow || s.Conn().Unsent() > limit+len(message)+100 {
				t.Errorf("Send: %v, %d bytes are unsent", err, s.Conn().Unsent())
			}
		}}
		open, resumed := make(chan *ws.Socket, 1), make(chan *ws.Socket, 1)
		h.onOpen = func(s *ws.Socket) { open <- s }
		p := resumingSocket(t, ws.Options{UnsentLimit: limit, DropSlow: true}, h, resumed)
		p.send(p.frame(fin|text, "go"))
		s := <-open
		until.OnLoop(t, s.Conn().Loop(), s.Full)
		p.send(p.frame(fin|ping, "waits"), p.frame(fin|ping, "too"))
		for first, n := byte(0), 0; first != fin|pong; n++ { // the last ping is answered, after all messages
			f, payload, err := p.read()
			if err != nil {
				t.Fatal(err)
			}
			if first = f; f == fin|pong && (payload != "too" || n != sent) {
				t.Errorf("a pong with %q after %d messages of %d", payload, n, sent)
			}
		}
		<-resumed
		on(t, s.Conn().Loop(), func() {
			if s.Full() {
				t.Error("Full is true after OnResumeWriting")
			}
		})
		bye(p)
	})
}

// TestPeerEndsWithoutReading checks that a peer that ends and reads nothing does not
// keep the connection open.
func TestPeerEndsWithoutReading(t *testing.T) {
	h := &socketEcho{onMessage: func(s *ws.Socket, kind ws.Kind, _ []byte) {
		for s.Conn().Unsent() < 512<<10 {
			s.Send(ws.Binary, make([]byte, 8<<10))
		}
	}}
	p := socketWith(t, ws.Options{CloseTimeout: 50 * time.Millisecond}, h)
	p.send(p.frame(fin|text, "go"))
	p.endWriting()
	if err := p.end(); err != io.ErrUnexpectedEOF {
		t.Errorf("closed with %v", err)
	}
}

// TestHandlerAppendsToMessage checks that appending to a message does not overwrite
// the next one.
func TestHandlerAppendsToMessage(t *testing.T) {
	h := &socketEcho{onMessage: func(s *ws.Socket, kind ws.Kind, message []byte) {
		s.Send(kind, append(message, "!!!!!!!!"...))
	}}
	p := socketWith(t, ws.Options{}, h)
	p.send(p.frame(fin|text, "one"), p.frame(fin|text, "two"))
	p.wants(fin|text, "one!!!!!!!!")
	p.wants(fin|text, "two!!!!!!!!")
	bye(p)
}

// resuming is a Handler that is also a WriteResumer.
type resuming struct {
	*socketEcho
	resumed chan *ws.Socket
}

func (r resuming) OnResumeWriting(s *ws.Socket) { r.resumed <- s }

func resumingSocket(t *testing.T, o ws.Options, h *socketEcho, resumed chan *ws.Socket) *peer {
	t.Helper()
	h.t, h.ended = t, make(chan error, 1)
	p := join(t, serveSockets(t, o, func() ws.Handler { return resuming{h, resumed} }), o)
	p.ended = h.ended
	return p
}

// TestPrepared sends one message of each size to clients without compression, with
// it, and with a small window.
func TestPrepared(t *testing.T) {
	var all []*ws.Socket
	ready := make(chan *loop.Loop, 1)
	o := ws.Options{CompressFrom: 100}
	address := serveSockets(t, o, func() ws.Handler {
		return &socketEcho{t: t, ended: make(chan error, 1), onOpen: func(s *ws.Socket) {
			if all = append(all, s); len(all) == 3 {
				ready <- s.Conn().Loop()
			}
		}}
	})
	packed := join(t, address, o)
	plain := join(t, address, ws.Options{})
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	small := newPeer(t, nc, true)
	small.handshake(request(address, "/", "Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=9"))
	l := <-ready
	for _, n := range []int{0, 5, 99, 100, 5000, 100_000} {
		message := large(n)
		owned := []byte(message)
		m := ws.Prepare(ws.Text, owned)
		clear(owned) // Prepare must not keep it
		on(t, l, func() {
			for _, s := range all {
				if err := errors.Join(s.SendPrepared(m), s.SendPrepared(m), s.Send(ws.Text, []byte(message))); err != nil {
					t.Error(err)
				}
			}
		})
		for name, p := range map[string]*peer{"plain": plain, "packed": packed, "small": small} {
			var frames []string
			for range 3 {
				first, payload, err := p.read()
				if err != nil {
					t.Fatal(err)
				}
				frames = append(frames, fmt.Sprint(first, payload))
				if first&rsv1 != 0 {
					payload = unpack(payload)
				}
				if payload != message || first&rsv1 != 0 != (n >= 100 && name != "plain") {
					t.Errorf("%s: a frame %#x of %d bytes, want %d", name, first, len(payload), n)
				}
			}
			if frames[0] != frames[1] || frames[1] != frames[2] {
				t.Errorf("%s: a message of %d bytes is sent in different ways", name, n)
			}
		}
	}
}
