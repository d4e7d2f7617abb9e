package ws_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle/ws"
)

// manualConn is a net.Conn on which no time passes: a deadline ends a call only if it is in
// the past, as that of a cancelled call is, or if the test says so. Reads wait for bytes of
// receive, and writes, one after the other, for a permit.
type manualConn struct {
	net.Conn // nil: unexpected calls panic
	writing  sync.Mutex

	mu            sync.Mutex
	changed       *sync.Cond
	unread        bytes.Buffer // guarded by mu, like all below
	readers       int          // reads that wait
	reads         int          // reads that have begun
	writers       int          // writes that wait
	permits       int
	expire        bool // the next read that waits fails
	closed        bool
	readDeadline  time.Time
	writeDeadline time.Time
}

// acceptManual accepts a WebSocket on a manualConn.
func acceptManual(t *testing.T, o ws.Options) (*manualConn, *ws.Conn) {
	t.Helper()
	nc := &manualConn{permits: 1} // for the handshake
	nc.changed = sync.NewCond(&nc.mu)
	nc.receive("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	c, err := ws.AcceptOn(nc, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.CloseNow() })
	return nc, c
}

// update changes the state.
func (c *manualConn) update(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.changed.Broadcast()
}

// await waits until the state is as described.
func (c *manualConn) await(is func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !is() {
		c.changed.Wait()
	}
}

func (c *manualConn) receive(text string) { c.update(func() { c.unread.WriteString(text) }) }

func past(deadline time.Time) bool { return deadline.Equal(time.Unix(1, 0)) }

func (c *manualConn) Read(p []byte) (n int, err error) {
	c.update(func() { c.readers++; c.reads++ })
	c.await(func() bool { return c.unread.Len() > 0 || c.closed || c.expire || past(c.readDeadline) })
	c.update(func() {
		c.readers--
		switch {
		case c.closed:
			err = net.ErrClosed
		case c.expire || past(c.readDeadline):
			c.expire, err = false, os.ErrDeadlineExceeded
		default:
			n, err = c.unread.Read(p)
		}
	})
	return n, err
}

func (c *manualConn) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.update(func() { c.writers++ })
	c.await(func() bool { return c.permits > 0 || c.closed || past(c.writeDeadline) })
	c.update(func() {
		c.writers--
		switch {
		case c.closed:
			err = net.ErrClosed
		case past(c.writeDeadline):
			err = os.ErrDeadlineExceeded
		default:
			n = len(p)
			c.permits--
		}
	})
	return n, err
}

func (c *manualConn) Close() error {
	c.update(func() { c.closed = true })
	return nil
}

func (c *manualConn) SetDeadline(t time.Time) error {
	c.update(func() { c.readDeadline, c.writeDeadline = t, t })
	return nil
}

func (c *manualConn) SetReadDeadline(t time.Time) error {
	c.update(func() { c.readDeadline = t })
	return nil
}

func (c *manualConn) SetWriteDeadline(t time.Time) error {
	c.update(func() { c.writeDeadline = t })
	return nil
}

// closeTimeout is longer than anything that the deadlines of these tests are compared with.
const closeTimeout = time.Hour

// TestCancelledWriteKeepsTheDeadlineOfClose: Close waits behind a Write for a peer that does
// not read. When the Write is cancelled, Close still ends in time.
func TestCancelledWriteKeepsTheDeadlineOfClose(t *testing.T) {
	nc, c := acceptManual(t, ws.Options{CloseTimeout: closeTimeout})
	ctx, cancel := context.WithCancelCause(t.Context())
	wrote, closed := make(chan error, 1), make(chan error, 1)
	go func() { wrote <- c.Write(ctx, ws.Text, []byte("x")) }()
	nc.await(func() bool { return nc.writers == 1 })
	go func() { closed <- c.Close(ws.NormalClosure, "") }()
	nc.await(func() bool { return !nc.writeDeadline.IsZero() })
	cancel(io.EOF)
	if err := <-wrote; err != io.EOF {
		t.Errorf("Write: %v", err)
	}
	nc.await(func() bool {
		if nc.writeDeadline.IsZero() {
			t.Error("Close has no deadline")
		}
		return true
	})
	c.CloseNow()
	<-closed
}

// TestPongKeepsTheDeadlineOfClose is the same for a pong, which has a deadline of its own.
func TestPongKeepsTheDeadlineOfClose(t *testing.T) {
	nc, c := acceptManual(t, ws.Options{CloseTimeout: closeTimeout})
	read, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, _, err := c.Read(context.Background())
		read <- err
	}()
	nc.receive("\x89\x80\x00\x00\x00\x00") // a ping
	nc.await(func() bool { return nc.writers == 1 })
	var pong time.Time
	nc.await(func() bool { pong = nc.writeDeadline; return true })
	go func() { closed <- c.Close(ws.NormalClosure, "") }()
	nc.await(func() bool { return !nc.writeDeadline.Equal(pong) })
	nc.update(func() { nc.permits++ })
	nc.await(func() bool { return nc.readers == 1 })
	nc.await(func() bool {
		if nc.writeDeadline.IsZero() {
			t.Error("Close has no deadline")
		}
		return true
	})
	c.CloseNow()
	<-closed
	<-read
}

// TestCloseWhenAPingIsDue: the deadline after which a read sends a ping passes while Close is
// being sent. The read waits for the peer's Close as long as CloseTimeout says.
func TestCloseWhenAPingIsDue(t *testing.T) {
	nc, c := acceptManual(t, ws.Options{CloseTimeout: closeTimeout, PingInterval: time.Minute})
	read, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, _, err := c.Read(context.Background())
		read <- err
	}()
	nc.await(func() bool { return nc.readers == 1 })
	go func() { closed <- c.Close(ws.NormalClosure, "") }()
	nc.await(func() bool { return nc.writers == 1 })
	begun := 0
	nc.update(func() { begun, nc.expire = nc.reads, true })
	nc.await(func() bool { return nc.reads > begun || nc.closed })
	nc.update(func() { nc.permits += 2 })
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
	nc.update(func() { begun = nc.reads })
	nc.receive("\x88\x82\x00\x00\x00\x00\x03\xe8") // the peer's Close
	nc.await(func() bool { return nc.reads > begun || nc.closed })
	nc.update(func() { nc.expire = true }) // the peer does not close its end
	var closeError *ws.CloseError
	if err := <-read; !errors.As(err, &closeError) {
		t.Errorf("Read: %v", err)
	}
}
