package stream_test

import (
	"context"
	"net"
	"testing"
)

// TestAddresses checks that addresses are those of net. If they were first requested
// after Close, at least their type is right.
func TestAddresses(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "tcp")
		if a.LocalAddr().String() != b.RemoteAddr().String() || b.LocalAddr().String() != a.RemoteAddr().String() {
			t.Errorf("%v and %v, %v and %v", a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(), b.RemoteAddr())
		}
		if _, ok := a.LocalAddr().(*net.TCPAddr); !ok || a.LocalAddr().Network() != "tcp" {
			t.Errorf("%T", a.LocalAddr())
		}
		c, d := pair(t, ctx, "unix")
		if c.RemoteAddr().Network() != "unix" || c.RemoteAddr().String() != d.LocalAddr().String() {
			t.Errorf("%v and %v", c.RemoteAddr(), d.LocalAddr())
		}
		e, _ := pair(t, ctx, "tcp")
		f, _ := pair(t, ctx, "unix")
		e.Close()
		f.Close()
		if _, ok := e.RemoteAddr().(*net.TCPAddr); !ok {
			t.Errorf("address of a closed TCP connection: %T", e.RemoteAddr())
		}
		if _, ok := f.RemoteAddr().(*net.UnixAddr); !ok {
			t.Errorf("address of a closed Unix connection: %T", f.RemoteAddr())
		}
	})
}
