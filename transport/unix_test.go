package transport_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestUnixSockets: a path is there while the server is, an abstract name leaves
// nothing, and addresses are right at both ends.
func TestUnixSockets(t *testing.T) {
	for name, address := range map[string]string{"path": t.TempDir() + "/s", "abstract": abstract()} {
		t.Run(name, func(t *testing.T) {
			var local, remote net.Addr
			l, s := serving(t, loop.Options{}, "unix", address, transport.Options{}, func() *spy {
				return &spy{made: func(c *transport.Conn) {
					local = c.LocalAddr()
					c.Close()
				}}
			})
			if s.Addr().String() != address || s.Addr().Network() != "unix" {
				t.Errorf("listens on %v", s.Addr())
			}
			done := make(chan bool)
			on(t, l, func() {
				transport.Connect(t.Context(), l, "unix", address, &spy{
					tb:   t,
					made: func(c *transport.Conn) { remote = c.RemoteAddr() },
					lost: func(c *transport.Conn, err error) {
						if err != nil {
							t.Error(err)
						}
						close(done)
					},
				}, transport.ConnectOptions{}, func(err error) { t.Error(err) })
			})
			<-done
			for _, a := range []net.Addr{local, remote} {
				if a == nil || a.Network() != "unix" || a.String() != address {
					t.Errorf("%v is %T %v", address, a, a)
				}
			}
			on(t, l, func() {
				o := transport.Options{Protocol: func() transport.Protocol { return &spy{} }}
				if _, err := transport.Listen(l, "unix", address, o); !errors.Is(err, syscall.EADDRINUSE) {
					t.Errorf("a second server: %v", err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				again, err := transport.Listen(l, "unix", address, o)
				if err != nil {
					t.Errorf("a server after the first: %v", err)
					return
				}
				if name == "path" {
					os.Remove(address) // somebody else was faster
				}
				if err := again.Close(); err != nil {
					t.Error(err)
				}
			})
			if _, err := os.Stat(address); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the path is still there: %v", err)
			}
		})
	}
}

// TestAFailedListenLeavesNoPath: also if it fails at its last step.
func TestAFailedListenLeavesNoPath(t *testing.T) {
	for _, step := range []string{"Listen", "LocalAddr", "Add"} {
		k, err := kernel.Open("")
		if err != nil {
			t.Fatal(err)
		}
		f := failing{k.Poller, k.Sockets, k.Native(), step}
		k.Poller, k.Sockets = f, f
		l, err := loop.New(loop.Options{Kernel: k})
		if err != nil {
			t.Fatal(err)
		}
		path := t.TempDir() + "/s"
		if _, err := transport.Listen(l, "unix", path, transport.Options{Protocol: func() transport.Protocol { return nil }}); !errors.Is(err, syscall.ENOBUFS) {
			t.Errorf("%s: %v", step, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the path is there: %v", step, err)
		}
		l.Close()
	}
}

// failing is a system where one call fails.
type failing struct {
	kernel.Poller
	kernel.Sockets
	kernel.Native
	call string
}

func (f failing) fails(call string) error {
	if f.call == call {
		return syscall.ENOBUFS
	}
	return nil
}

func (f failing) Listen(fd, backlog int) error {
	return errors.Join(f.fails("Listen"), f.Sockets.Listen(fd, backlog))
}

func (f failing) LocalAddr(fd int) (kernel.Addr, error) {
	a, err := f.Sockets.LocalAddr(fd)
	return a, errors.Join(f.fails("LocalAddr"), err)
}

func (f failing) Add(fd int, tok kernel.Token, in kernel.Interest, mode kernel.Mode) error {
	if err := f.fails("Add"); err != nil {
		return err
	}
	return f.Poller.Add(fd, tok, in, mode)
}

// TestAddressesAndOptions: as package net has them, and told of by Info.
func TestAddressesAndOptions(t *testing.T) {
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
				c.SetReadBuffer(10_000), c.SetWriteBuffer(10_000), c.SetLinger(-1),
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
		}, lost: func(c *transport.Conn, err error) {
			if err := c.SetNoDelay(true); !errors.Is(err, net.ErrClosed) {
				t.Errorf("an option of a lost connection: %v", err)
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
