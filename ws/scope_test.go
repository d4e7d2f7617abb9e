package ws_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// telling tells when a deadline in the past is set, which is how a Read is cancelled.
type telling struct {
	net.Conn
	past chan bool
}

func (c telling) SetReadDeadline(t time.Time) error {
	if t.Equal(time.Unix(1, 0)) {
		c.past <- true
	}
	return c.Conn.SetReadDeadline(t)
}

type tellingWriter struct {
	http.ResponseWriter
	past chan bool
}

func (w tellingWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := w.ResponseWriter.(http.Hijacker).Hijack()
	return telling{nc, w.past}, rw, err
}

// TestCancelledReadInATask: while a goroutine sets the deadline that cancels a Read, the
// task that reads goes on already. Neither waits for the other, and the next Read has
// no such deadline.
func TestCancelledReadInATask(t *testing.T) {
	past := make(chan bool)
	result := make(chan error, 1)
	handler := web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := ws.Accept(tellingWriter{w, past}, r, ws.Options{})
		if err != nil {
			t.Error(err)
			return
		}
		defer c.CloseNow()
		spindle.WithScope(r.Context(), func(ctx context.Context, s *spindle.Scope) error {
			spindle.LoopOf(ctx).CallSoon(func() {
				s.Cancel(io.EOF)
				<-past // it is about to be set
			})
			_, _, err := c.Read(ctx)
			return err
		})
		if err := c.Write(r.Context(), ws.Text, []byte("go on")); err != nil {
			t.Error(err)
		}
		_, _, err = c.Read(r.Context())
		result <- err
	}))
	address := serve(t, handler)
	c, _, err := websocket.DefaultDialer.Dial("ws://"+address+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, m, err := c.ReadMessage(); err != nil || string(m) != "go on" {
		t.Fatalf("got %q, %v", m, err)
	}
	if err := c.WriteMessage(websocket.TextMessage, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
}
