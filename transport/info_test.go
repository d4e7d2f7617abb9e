package transport_test

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestInfoAndOptions: Info has the addresses in the form of package net, and options can
// be set.
func TestInfoAndOptions(t *testing.T) {
	checked := make(chan bool)
	_, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
		return &spy{data: func(c *transport.Conn, data []byte) {
			defer close(checked)
			info := c.Info()
			if info.Local == nil || info.Local.String() != c.LocalAddr().String() || info.In != uint64(len(data)) || !info.Reading || info.Closing {
				t.Errorf("%+v", info)
			}
			for _, err := range []error{
				c.SetNoDelay(false), c.SetNoDelay(true), c.SetKeepAlive(true),
				c.SetBuffers(10_000, 10_000), c.SetBuffers(0, 0), c.SetLinger(-1),
			} {
				if err != nil {
					t.Error(err)
				}
			}
			c.Write([]byte("four"))
			c.AfterFlush(func(err error) {
				if info := c.Info(); err != nil || info.Out != 4 || info.Unsent != 0 {
					t.Errorf("%+v, %v", info, err)
				}
				c.Close()
			})
		}, lost: func(c *transport.Conn, _ error) {
			err := c.SetNoDelay(true)
			var op *net.OpError
			if !errors.Is(err, net.ErrClosed) || !errors.As(err, &op) || op.Op != "set" {
				t.Errorf("setting an option of a lost connection: %v", err)
			}
		}}
	})
	c := dial(t, s)
	c.Write([]byte("hello"))
	<-checked
	if got, err := io.ReadAll(c); string(got) != "four" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}
