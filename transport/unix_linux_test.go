package transport_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestUnixPathAndAbstractName: a server at a path and one at an abstract name, which has
// no file.
func TestUnixPathAndAbstractName(t *testing.T) {
	for _, abstract := range []bool{false, true} {
		t.Run(fmt.Sprintf("abstract=%v", abstract), func(t *testing.T) {
			withLoops(t, func(t *testing.T, l *loop.Loop) {
				name := filepath.Join(t.TempDir(), "s")
				if abstract {
					name = "@spindle-unix-" + strconv.Itoa(os.Getpid())
				}
				var pid, uid, gid int
				s, err := transport.Listen(l, "unix", name, transport.Options{Protocol: func() transport.Protocol {
					return &script{data: func(c *transport.Conn, data []byte) {
						var err error
						if pid, uid, gid, err = c.PeerCred(); err != nil {
							t.Error(err)
						}
						if c.LocalAddr().String() != name || c.LocalAddr().Network() != "unix" {
							t.Errorf("local address of the server: %v", c.LocalAddr())
						}
						c.Write(data)
						c.Close()
					}}
				}})
				if err != nil {
					t.Fatal(err)
				}
				if s.Addr().String() != name {
					t.Errorf("listens at %v", s.Addr())
				}
				if _, err := transport.Listen(l, "unix", name, transport.Options{Protocol: func() transport.Protocol { return nil }}); !errors.Is(err, syscall.EADDRINUSE) {
					t.Errorf("a second server: %v", err)
				}
				got := ""
				transport.Connect(t.Context(), l, "unix", name, transport.ConnectOptions{Protocol: &script{
					made: func(c *transport.Conn) {
						if c.RemoteAddr().String() != name || c.LocalAddr().Network() != "unix" {
							t.Errorf("from %v to %v", c.LocalAddr(), c.RemoteAddr())
						}
						c.Write([]byte("hi"))
					},
					data: func(_ *transport.Conn, data []byte) { got += string(data) },
					lost: stopWhenLost(t, l, nil),
				}, OnError: func(err error) { t.Error(err); l.Stop() }})
				run(t, l)
				if got != "hi" || pid != os.Getpid() || uid != os.Getuid() || gid != os.Getgid() {
					t.Errorf("got %q from process %d of user %d and group %d", got, pid, uid, gid)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the path was not removed: %v", err)
				}
			})
		})
	}
}

func TestPeerCredOfTCP(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		near, _ := tcpPair(t)
		conn := wrap(t, l, near, &script{
			made: func(c *transport.Conn) {
				if _, _, _, err := c.PeerCred(); !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("TCP: %v", err)
				}
				c.Close()
			},
			lost: stopWhenLost(t, l, nil),
		})
		run(t, l)
		if _, _, _, err := conn.PeerCred(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// TestUnixPathOfSuccessorStays: a server does not remove the path of a server that has
// replaced it.
func TestUnixPathOfSuccessorStays(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	path := filepath.Join(t.TempDir(), "s")
	o := transport.Options{Protocol: func() transport.Protocol { return &script{} }}
	old, err := transport.Listen(l, "unix", path, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if _, err := transport.Listen(l, "unix", path, o); err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the path of the successor was removed: %v", err)
	}
}

// TestUnixPathRemovedAtLoopClose: closing the loop removes the path of a server that was
// not closed.
func TestUnixPathRemovedAtLoopClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transport.Listen(l, "unix", path, transport.Options{Protocol: func() transport.Protocol { return &script{} }}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the path was not removed: %v", err)
	}
}
