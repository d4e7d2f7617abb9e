package ws_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// deadlineConn signals when a deadline in the past is set, which is how a Read is
// cancelled.
type deadlineConn struct {
	net.Conn
	past chan bool
}

func (c deadlineConn) SetReadDeadline(t time.Time) error {
	if t.Equal(time.Unix(1, 0)) {
		c.past <- true
	}
	return c.Conn.SetReadDeadline(t)
}

type deadlineWriter struct {
	http.ResponseWriter
	past chan bool
}

func (w deadlineWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := w.ResponseWriter.(http.Hijacker).Hijack()
	return deadlineConn{nc, w.past}, rw, err
}

// TestCancelledReadInATask: while a goroutine sets the deadline that cancels a Read,
// the reading task already continues. Neither waits for the other, and the deadline
// does not affect the next Read.
func TestCancelledReadInATask(t *testing.T) {
	past := make(chan bool)
	result := make(chan error, 1)
	handler := web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := ws.Accept(deadlineWriter{w, past}, r, ws.Options{})
		if err != nil {
			t.Error(err)
			return
		}
		defer c.CloseNow()
		spindle.WithScope(r.Context(), func(ctx context.Context, s *spindle.Scope) error {
			spindle.LoopOf(ctx).CallSoon(func() {
				s.Cancel(io.EOF)
				<-past // the deadline is about to be set
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

// TestReadResumesAfterCancellation checks that a partly received message is not
// lost.
func TestReadResumesAfterCancellation(t *testing.T) {
	for _, how := range []string{"by a scope", "by a context", "by a context, and a Reader goes on"} {
		t.Run(how, func(t *testing.T) {
			pair(t, ws.Options{}, func(ctx context.Context, client, server *ws.Conn) error {
				w, err := client.Writer(ctx, ws.Text)
				if err != nil {
					return err
				}
				half := []byte(large(20 << 10)) // one frame is sent, and the rest is buffered
				if _, err := w.Write(half); err != nil {
					return err
				}
				if how == "by a scope" {
					expired, err := spindle.MoveOnAfter(ctx, 20*time.Millisecond, func(ctx context.Context) error {
						_, _, err := server.Read(ctx)
						return err
					})
					if !expired || err != nil {
						return fmt.Errorf("expired %v, %w", expired, err)
					}
				} else {
					short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
					defer cancel()
					if _, _, err := server.Read(short); !errors.Is(err, context.DeadlineExceeded) {
						return fmt.Errorf("cancelled with %w", err)
					}
				}
				if _, err := w.Write(half); err != nil {
					return err
				}
				if err := w.Close(); err != nil {
					return err
				}
				var message []byte
				if strings.HasSuffix(how, "goes on") {
					var r io.Reader
					if _, r, err = server.Reader(ctx); err == nil {
						message, err = io.ReadAll(r)
					}
				} else {
					_, message, err = server.Read(ctx)
				}
				if want := string(half) + string(half); string(message) != want {
					return fmt.Errorf("%d bytes, want %d; %w", len(message), len(want), err)
				}
				return nil
			})
		})
	}
}

// TestEndedContext checks that calls fail and leave the connection usable.
func TestEndedContext(t *testing.T) {
	pair(t, ws.Options{}, func(ctx context.Context, client, server *ws.Conn) error {
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if err := client.Write(gone, ws.Text, []byte("x")); !errors.Is(err, context.Canceled) {
			t.Errorf("Write: %v", err)
		}
		if _, _, err := client.Read(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("Read: %v", err)
		}
		if err := client.Write(ctx, ws.Text, []byte("y")); err != nil {
			return err
		}
		if _, message, err := server.Read(ctx); err != nil || string(message) != "y" {
			t.Errorf("%q, %v", message, err)
		}
		return nil
	})
}

// TestPartialWriteEndsTheConnection: nothing can follow a partial frame.
func TestPartialWriteEndsTheConnection(t *testing.T) {
	pair(t, ws.Options{}, func(ctx context.Context, client, server *ws.Conn) error {
		short, cancel := context.WithCancel(ctx)
		return both(ctx, func(ctx context.Context) error {
			if err := client.Write(short, ws.Binary, make([]byte, 16<<20)); !errors.Is(err, context.Canceled) {
				t.Errorf("Write: %v", err)
			}
			if err := client.Write(ctx, ws.Binary, nil); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Write after it: %v", err)
			}
			return nil
		}, func(ctx context.Context) error {
			defer cancel()
			for !waits(ctx, "Conn.Write") { // then part of the frame is sent, and the buffers are full
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// waits reports whether a task waits for something.
func waits(ctx context.Context, what string) bool {
	for _, task := range spindle.TreeOf(ctx) {
		if task.State == "waiting" && task.WaitsFor == what {
			return true
		}
	}
	return false
}
