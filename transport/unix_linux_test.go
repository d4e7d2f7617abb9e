package transport_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestUnixNames: a path, and an abstract name, which has no file.
func TestUnixNames(t *testing.T) {
	for _, abstract := range []bool{false, true} {
		t.Run(fmt.Sprintf("abstract=%v", abstract), func(t *testing.T) {
			onEveryBackend(t, func(t *testing.T, l *loop.Loop) {
				name := filepath.Join(t.TempDir(), "s")
				if abstract {
					name = "@spindle-unix-" + strconv.Itoa(os.Getpid())
				}
				var cred transport.Cred
				s, err := transport.Listen(l, "unix", name, transport.Options{Protocol: func() transport.Protocol {
					return &script{got: func(c *transport.Conn, data []byte) {
						var err error
						if cred, err = c.PeerCred(); err != nil {
							t.Error(err)
						}
						if c.LocalAddr().String() != name || c.LocalAddr().Network() != "unix" {
							t.Errorf("the server's end is %v", c.LocalAddr())
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
					t.Errorf("a second one: %v", err)
				}
				got := ""
				transport.Connect(t.Context(), l, "unix", name, &script{
					made: func(c *transport.Conn) {
						if c.RemoteAddr().String() != name || c.LocalAddr().Network() != "unix" {
							t.Errorf("from %v to %v", c.LocalAddr(), c.RemoteAddr())
						}
						c.Write([]byte("hi"))
					},
					got:  func(_ *transport.Conn, data []byte) { got += string(data) },
					lost: stops(t, l, nil),
				}, transport.ConnectOptions{}, func(err error) { t.Error(err); l.Stop() })
				run(t, l)
				want := transport.Cred{PID: os.Getpid(), UID: os.Getuid(), GID: os.Getgid()}
				if got != "hi" || cred != want {
					t.Errorf("got %q from %+v, want %+v", got, cred, want)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the path is left: %v", err)
				}
			})
		})
	}
}

func TestPeerCredOfTCP(t *testing.T) {
	onEveryBackend(t, func(t *testing.T, l *loop.Loop) {
		near, _ := tcpPair(t)
		conn := wrap(t, l, near, &script{
			made: func(c *transport.Conn) {
				if _, err := c.PeerCred(); !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("TCP: %v", err)
				}
				c.Close()
			},
			lost: stops(t, l, nil),
		})
		run(t, l)
		if _, err := conn.PeerCred(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// TestThePathOfAnotherIsLeft: a server that was replaced does not remove the path
// of its successor.
func TestThePathOfAnotherIsLeft(t *testing.T) {
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
		t.Errorf("the successor's path is gone: %v", err)
	}
}

// TestThePathGoesWithTheLoop: a server that nobody closed cleans up too.
func TestThePathGoesWithTheLoop(t *testing.T) {
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
		t.Errorf("the path is left: %v", err)
	}
}

func TestWrapTerminal(t *testing.T) {
	onEveryBackend(t, func(t *testing.T, l *loop.Loop) {
		master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
		if err != nil {
			t.Skipf("no pseudo-terminals here: %v", err)
		}
		defer master.Close()
		fd := int(master.Fd())
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			t.Fatal(err)
		}
		n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
		if err != nil {
			t.Fatal(err)
		}
		terminal, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
		if err != nil {
			t.Skipf("no pseudo-terminals here: %v", err)
		}
		defer terminal.Close()
		got := ""
		wrap(t, l, terminal, &script{
			made: func(*transport.Conn) { master.Write([]byte("line\n")) },
			got: func(c *transport.Conn, data []byte) {
				got += string(data)
				c.Write([]byte("answer"))
				c.Close()
			},
			lost: stops(t, l, nil),
		})
		run(t, l)
		if got != "line\n" {
			t.Errorf("got %q", got)
		}
		buf := make([]byte, len("line\r\nanswer"))
		if _, err := io.ReadFull(master, buf); err != nil || string(buf) != "line\r\nanswer" { // with its echo
			t.Errorf("the terminal shows %q, %v", buf, err)
		}
	})
}
