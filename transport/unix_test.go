package transport_test

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestUnixSockets: a path exists as long as the server, an abstract name creates no
// file, and both ends have the right addresses.
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
				transport.Connect(t.Context(), l, "unix", address, transport.ConnectOptions{Protocol: &spy{
					tb:   t,
					made: func(c *transport.Conn) { remote = c.RemoteAddr() },
					lost: func(c *transport.Conn, err error) {
						if err != nil {
							t.Error(err)
						}
						close(done)
					},
				}, OnError: func(err error) { t.Error(err) }})
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
					os.Remove(address) // as if another process had removed it
				}
				if err := again.Close(); err != nil {
					t.Error(err)
				}
			})
			if _, err := os.Stat(address); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the path was not removed: %v", err)
			}
		})
	}
}

// TestUnixPathRemovedWhenListenFails: a failed Listen leaves no path, at whichever step
// it fails.
func TestUnixPathRemovedWhenListenFails(t *testing.T) {
	for _, step := range []string{"Listen", "LocalAddr", "Add"} {
		k, err := kernel.Open("")
		if err != nil {
			t.Fatal(err)
		}
		f := failingCall{k.Poller, k.Sockets, k.Native(), step}
		k.Poller, k.Sockets = f, f
		l, err := loop.New(loop.Internal().WithKernel(loop.Options{}, k))
		if err != nil {
			t.Fatal(err)
		}
		path := t.TempDir() + "/s"
		if _, err := transport.Listen(l, "unix", path, transport.Options{Protocol: func() transport.Protocol { return nil }}); !errors.Is(err, syscall.ENOBUFS) {
			t.Errorf("%s: %v", step, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the path was not removed: %v", step, err)
		}
		l.Close()
	}
}

// failingCall is a kernel in which one call fails.
type failingCall struct {
	kernel.Poller
	kernel.Sockets
	kernel.Native
	call string
}

func (f failingCall) fails(call string) error {
	if f.call == call {
		return syscall.ENOBUFS
	}
	return nil
}

func (f failingCall) Listen(fd, backlog int) error {
	return errors.Join(f.fails("Listen"), f.Sockets.Listen(fd, backlog))
}

func (f failingCall) LocalAddr(fd int) (kernel.Addr, error) {
	a, err := f.Sockets.LocalAddr(fd)
	return a, errors.Join(f.fails("LocalAddr"), err)
}

func (f failingCall) Add(fd int, tok kernel.Token, in kernel.Interest, mode kernel.Mode) error {
	if err := f.fails("Add"); err != nil {
		return err
	}
	return f.Poller.Add(fd, tok, in, mode)
}
