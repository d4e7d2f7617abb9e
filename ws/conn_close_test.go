package ws_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/spindleloop/spindle/ws"
)

// TestCloseNow: the peer gets what was written before, and then the end of the connection without a Close.
// Later calls fail with net.ErrClosed.
func TestCloseNow(t *testing.T) {
	for _, side := range []string{"client", "server"} {
		t.Run(side, func(t *testing.T) {
			pair(t, ws.Options{}, func(ctx context.Context, c, peer *ws.Conn) error {
				if side == "server" {
					c, peer = peer, c
				}
				if err := c.Write(ctx, ws.Text, []byte("last")); err != nil {
					return err
				}
				if err := c.CloseNow(); err != nil {
					t.Errorf("CloseNow: %v", err)
				}
				if _, got, err := peer.Read(ctx); string(got) != "last" || err != nil {
					t.Errorf("the peer reads %q, %v", got, err)
				}
				_, _, err := peer.Read(ctx)
				if closed := (*ws.CloseError)(nil); err == nil || errors.As(err, &closed) || ws.CodeOf(err) != ws.AbnormalClosure {
					t.Errorf("the peer reads %v", err)
				}
				_, _, readErr := c.Read(ctx)
				for name, err := range map[string]error{
					"CloseNow": c.CloseNow(), "Close": c.Close(ws.NormalClosure, ""), "Read": readErr,
					"Write": c.Write(ctx, ws.Text, nil),
				} {
					if !errors.Is(err, net.ErrClosed) {
						t.Errorf("%s after CloseNow: %v", name, err)
					}
				}
				return nil
			})
		})
	}
}

// TestCloseNowEndsPendingCalls: a Read, a Write for a peer that reads nothing, and a Close behind it fail, and
// the Close is not sent.
func TestCloseNowEndsPendingCalls(t *testing.T) {
	nc, c := acceptManual(t, ws.Options{CloseTimeout: closeTimeout})
	read, wrote, closed := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() {
		_, _, err := c.Read(context.Background())
		read <- err
	}()
	go func() { wrote <- c.Write(context.Background(), ws.Text, []byte("x")) }()
	nc.await(func() bool { return nc.readers == 1 && nc.writers == 1 })
	go func() { closed <- c.Close(ws.NormalClosure, "") }()
	nc.await(func() bool { return !nc.writeDeadline.IsZero() })
	if err := c.CloseNow(); err != nil {
		t.Errorf("CloseNow: %v", err)
	}
	for name, ended := range map[string]chan error{"Read": read, "Write": wrote, "Close": closed} {
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
