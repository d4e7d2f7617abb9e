package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/either"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/ws"
)

// serveEvents answers with server-sent events.
func (h *Handler) serveEvents(w http.ResponseWriter, r *http.Request, e relay.Envelope) {
	s, err := h.c.Stream(r.Context(), e)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	defer s.Close()
	rc := http.NewResponseController(w)
	for began := false; ; began = true {
		item, err := s.Next(r.Context())
		switch {
		case err == nil:
		case err == io.EOF && !began:
			eventHeader(w)
			fallthrough
		case err == io.EOF:
			h.succeed()
			return
		case !began:
			h.fail(w, r, err)
			return
		default:
			if status := h.count(r.Context(), err); status != 0 {
				h.report(r.Context(), status, err, "status", http.StatusOK, "event", "error")
				w.Write([]byte("event: error\ndata: " + reason(err) + "\n\n"))
				rc.Flush()
			}
			return
		}
		if !began {
			eventHeader(w)
		}
		_, err = w.Write(event(item))
		if err == nil {
			err = rc.Flush()
		}
		if err != nil && !errors.Is(err, http.ErrNotSupported) { // without Flush, items are sent later
			h.clientGone.Add(1)
			return
		}
	}
}

func eventHeader(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
}

// event returns an item as an event, with a data field for each of its lines.
func event(item []byte) []byte {
	item = bytes.ReplaceAll(bytes.ReplaceAll(item, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	var b []byte
	for line := range bytes.SplitSeq(item, []byte("\n")) {
		b = append(append(append(b, "data: "...), line...), '\n')
	}
	return append(b, '\n')
}

// reason returns what a client may know of an error.
func reason(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, relay.ErrFull), errors.Is(err, relay.ErrNoResponder), errors.Is(err, relay.ErrDown), errors.Is(err, relay.ErrClosed):
		return "unavailable"
	}
	return "failed"
}

// The limits for a client that has vanished. Without them its connection would stay open.
const (
	pingInterval = 30 * time.Second // and the time for an answer
	writeTimeout = 30 * time.Second
)

// serveSocket serves a WebSocket. Its client is read and pinged while a call runs, so that its
// leaving is noticed, but not when two more messages wait: they are kept here.
func (h *Handler) serveSocket(w http.ResponseWriter, r *http.Request) {
	c, err := ws.Accept(w, r, ws.Options{MessageLimit: int(h.r.MaxBody), CheckOrigin: h.r.CheckOrigin, PingInterval: pingInterval})
	if err != nil {
		h.refused.Add(1) // Accept has answered
		return
	}
	defer c.CloseNow()
	requests := cosync.NewInbox[[]byte](1)
	both(r.Context(), func(ctx context.Context) error {
		defer requests.Close()
		defer c.CloseNow() // ends a write
		for {
			_, message, err := c.Read(ctx)
			if errors.As(err, new(*ws.ProtocolError)) { // such as a message that is too large
				h.refused.Add(1)
			}
			if err == nil {
				err = requests.Put(ctx, bytes.Clone(message)) // the next Read reuses it
			}
			if err != nil {
				return err // ends the call that runs
			}
		}
	}, func(ctx context.Context) error {
		for {
			message, err := requests.Get(ctx)
			if err != nil {
				return err
			}
			e := h.envelope(r, message)
			delete(e.Headers, relay.IdempotencyKey) // of the handshake, not of this message
			err = h.answerSocket(ctx, c, e)
			switch err {
			case nil:
				h.succeed()
				continue
			case errNotWritten:
				h.clientGone.Add(1)
				return err
			}
			if status := h.count(ctx, err); status != 0 {
				code := ws.InternalError
				if status == http.StatusServiceUnavailable {
					code = tryAgainLater
				}
				h.report(ctx, status, err, "close", int(code))
				c.Close(code, reason(err))
			}
			return err
		}
	})
}

const tryAgainLater ws.Code = 1013

// errNotWritten is the error of answerSocket when an item cannot be sent to the client.
var errNotWritten = errors.New("relay: the client has left")

// answerSocket makes a call, and sends its items.
func (h *Handler) answerSocket(ctx context.Context, c *ws.Conn, e relay.Envelope) error {
	s, err := h.c.Stream(ctx, e)
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		item, err := s.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		kind := ws.Binary
		if utf8.Valid(item) {
			kind = ws.Text
		}
		if writeMessage(ctx, c, kind, item) != nil {
			return errNotWritten
		}
	}
}

// writeMessage writes a message. If it fails, the connection has ended. In a task, only the end of
// the connection ends a write: a context would do so on a goroutine, which a simulated run does not have.
func writeMessage(ctx context.Context, c *ws.Conn, kind ws.Kind, message []byte) (err error) {
	if spindle.Current(ctx) != nil {
		timer := spindle.LoopOf(ctx).CallLater(writeTimeout, func() { c.CloseNow() })
		err = c.Write(context.WithoutCancel(ctx), kind, message)
		timer.Cancel()
	} else {
		err = either.FailAfter(ctx, writeTimeout, func(ctx context.Context) error { return c.Write(ctx, kind, message) })
	}
	if err != nil && !errors.Is(err, net.ErrClosed) { // a close that has begun goes on
		c.CloseNow()
	}
	return err
}

// both runs two functions at a time, in tasks or on goroutines, until both have returned.
// When one returns, the context of the other ends.
func both(ctx context.Context, a, b func(ctx context.Context) error) {
	if spindle.Current(ctx) != nil {
		// Both have accounted for their errors.
		_ = spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				defer n.Scope().Cancel(nil)
				return a(ctx)
			})
			defer n.Scope().Cancel(nil)
			return b(ctx)
		})
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel()
		_ = a(ctx)
	}()
	_ = b(ctx)
	cancel()
	<-ended
}
