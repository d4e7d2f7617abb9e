package transport_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// tempFile returns a file with the given content.
func tempFile(t *testing.T, content []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// withKernels runs a test with a loop on each poller, and on a kernel without
// kernel.Native. A worker may still be busy when the loop is closed, so the error of
// Close is ignored.
func withKernels(t *testing.T, test func(t *testing.T, l *loop.Loop)) {
	for _, name := range []string{"auto", "poll", "not native"} {
		if testing.Short() && name == "poll" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			k, err := kernel.Open(strings.TrimSuffix(name, "not native"))
			if err != nil {
				t.Fatal(err)
			}
			if name == "not native" {
				k.Sockets = struct{ kernel.Sockets }{k.Sockets}
			}
			l, err := loop.New(loop.Internal().WithKernel(loop.Options{}, k))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			test(t, l)
		})
	}
}

// serve starts a server with protocol p and connects to it.
func serve(t *testing.T, l *loop.Loop, network string, p transport.Protocol) net.Conn {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	s, err := transport.Listen(l, network, address, transport.Options{Protocol: func() transport.Protocol { return p }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(address) })
	c, err := net.Dial(network, s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// pauseCountingScript counts the calls of PauseWriting.
type pauseCountingScript struct {
	script
	paused int
}

func (p *pauseCountingScript) PauseWriting(*transport.Conn)  { p.paused++ }
func (p *pauseCountingScript) ResumeWriting(*transport.Conn) {}

func TestSendFileInOrderWithWrites(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 300<<10)
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			withKernels(t, func(t *testing.T, l *loop.Loop) {
				f := tempFile(t, content)
				var calls []string
				note := func(name string) func(error) {
					return func(err error) { calls = append(calls, fmt.Sprint(name, err)) }
				}
				p := &pauseCountingScript{}
				p.made = func(c *transport.Conn) {
					c.Write([]byte("head;"))
					c.SendFile(f, 0, -1, note("one"))
					c.Write([]byte(";between;"))
					c.AfterFlush(note("between"))
					c.SendFile(f, 5, 0, note("nothing"))
					c.SendFile(f, 3, 10, note("two"))
					c.SendFile(f, int64(len(content))-3, -1, nil)
					c.Write([]byte(";tail"))
					if c.Unsent() > 1000 {
						t.Errorf("Unsent counts a file: %d bytes", c.Unsent())
					}
					if len(calls) > 0 {
						t.Errorf("done was called inside SendFile: %v", calls)
					}
					c.Close()
				}
				p.lost = stopWhenLost(t, l, nil)
				peer := serve(t, l, network, p)
				got := make(chan []byte, 1)
				go func() {
					all, err := io.ReadAll(peer)
					if err != nil {
						t.Error(err)
					}
					got <- all
				}()
				run(t, l)
				want := concat("head;", content, ";between;", content[3:13], content[len(content)-3:], ";tail")
				if all := <-got; !bytes.Equal(all, want) {
					t.Errorf("the %d received bytes differ from the %d expected", len(all), len(want))
				}
				if want := "[one<nil> between<nil> nothing<nil> two<nil>]"; fmt.Sprint(calls) != want {
					t.Errorf("calls %v, want %v", calls, want)
				}
				if p.paused != 0 {
					t.Error("a file counts towards the water marks")
				}
			})
		})
	}
}

func concat(parts ...any) (all []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			all = append(all, p...)
		case []byte:
			all = append(all, p...)
		}
	}
	return all
}

// TestSendFileOnFullSocket: bytes queued before the file are sent first, and the file
// waits until the socket is writable.
func TestSendFileOnFullSocket(t *testing.T) {
	withKernels(t, func(t *testing.T, l *loop.Loop) {
		f := tempFile(t, big)
		written := 0
		var peer net.Conn
		got := make(chan []byte, 1)
		peer = serve(t, l, "tcp", &script{
			made: func(c *transport.Conn) {
				for c.Unsent() == 0 {
					c.Write(big)
					written++
				}
				for range 8 {
					c.SendFile(f, 0, -1, nil)
				}
				c.Write(big)
				c.Close()
				go func() {
					all, _ := io.ReadAll(peer)
					got <- all
				}()
			},
			lost: stopWhenLost(t, l, nil),
		})
		run(t, l)
		if all := <-got; !bytes.Equal(all, bytes.Repeat(big, written+8+1)) {
			t.Errorf("the %d received bytes differ from the %d expected", len(all), (written+8+1)*len(big))
		}
	})
}

func TestSendFileErrors(t *testing.T) {
	withKernels(t, func(t *testing.T, l *loop.Loop) {
		f := tempFile(t, []byte("short"))
		dir, err := os.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		closed := tempFile(t, nil)
		closed.Close()
		calls := 0
		wants := func(want error) func(error) {
			return func(err error) {
				calls++
				var op *net.OpError
				if !errors.Is(err, want) || !errors.As(err, &op) {
					t.Errorf("done got %v, want %v", err, want)
				}
			}
		}
		peer := serve(t, l, "tcp", &script{
			made: func(c *transport.Conn) {
				c.SendFile(f, -1, 1, wants(os.ErrInvalid))
				c.SendFile(dir, 0, 1, wants(os.ErrInvalid))
				c.SendFile(f, 0, 6, wants(io.ErrUnexpectedEOF))
				c.SendFile(f, 6, 1, wants(io.ErrUnexpectedEOF))
				c.SendFile(closed, 0, 1, wants(os.ErrClosed))
				c.SendFile(f, 100, -1, nil) // the end of the file: no bytes
				c.Write([]byte("goes on"))
				c.Close()
				c.SendFile(f, 0, 1, wants(net.ErrClosed))
			},
			lost: stopWhenLost(t, l, nil),
		})
		run(t, l)
		if got, err := io.ReadAll(peer); err != nil || string(got) != "goes on" {
			t.Errorf("got %q, %v", got, err)
		}
		if calls != 6 {
			t.Errorf("done called %d times", calls)
		}
	})
}

// TestSendFileShrinks: a file that becomes shorter ends the connection, because the peer
// would take the next bytes for the rest of the file.
func TestSendFileShrinks(t *testing.T) {
	withKernels(t, func(t *testing.T, l *loop.Loop) {
		f := tempFile(t, bytes.Repeat(big, 8))
		var results []error
		var peer net.Conn
		peer = serve(t, l, "tcp", &script{
			made: func(c *transport.Conn) {
				c.SendFile(f, 0, -1, func(err error) { results = append(results, err) })
				c.Write([]byte("never"))
				if err := f.Truncate(1 << 20); err != nil {
					t.Fatal(err)
				}
				go io.Copy(io.Discard, peer)
			},
			lost: stopWhenLost(t, l, io.ErrUnexpectedEOF),
		})
		run(t, l)
		if len(results) != 1 || !errors.Is(results[0], io.ErrUnexpectedEOF) {
			t.Errorf("done got %v", results)
		}
	})
}

// TestAbortDuringSendFile: if Abort or the end of the loop ends the connection while a
// worker has the file, done is called once and no descriptor is left.
func TestAbortDuringSendFile(t *testing.T) {
	ends := map[string]func(*loop.Loop, *transport.Conn){
		"abort":       func(_ *loop.Loop, c *transport.Conn) { c.Abort() },
		"abort later": func(l *loop.Loop, c *transport.Conn) { l.CallLater(time.Millisecond, c.Abort) },
		"stop":        func(l *loop.Loop, _ *transport.Conn) { l.Stop() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			withKernels(t, func(t *testing.T, l *loop.Loop) {
				f := tempFile(t, bytes.Repeat(big, 32))
				var results []error
				peer := serve(t, l, "tcp", &script{
					made: func(c *transport.Conn) {
						c.SendFile(f, 0, -1, func(err error) { results = append(results, err) })
						end(l, c)
					},
					lost: func(*transport.Conn, error) { l.Stop() },
				})
				run(t, l)
				l.Close()
				if len(results) != 1 || !errors.Is(results[0], net.ErrClosed) {
					t.Errorf("done got %v", results)
				}
				if n, _ := io.Copy(io.Discard, peer); n > 16<<20 {
					t.Errorf("%d bytes arrived", n)
				}
			})
		})
	}
}

func TestSendFileWriteTimeout(t *testing.T) {
	withKernels(t, func(t *testing.T, l *loop.Loop) {
		f := tempFile(t, bytes.Repeat(big, 32))
		serve(t, l, "tcp", &script{
			made: func(c *transport.Conn) {
				c.SetWriteTimeout(20 * time.Millisecond)
				c.SendFile(f, 0, -1, nil)
			},
			lost: stopWhenLost(t, l, os.ErrDeadlineExceeded),
		})
		run(t, l)
	})
}

// TestSendFileWaitsForWorker: more files can be sent than the limit of jobs.
func TestSendFileWaitsForWorker(t *testing.T) {
	l, err := loop.New(loop.Options{Workers: 1, MaxOffloads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := tempFile(t, big)
	left := 8
	counts := make(chan int64, left)
	for range left {
		peer := serve(t, l, "tcp", &script{
			made: func(c *transport.Conn) {
				c.SendFile(f, 0, -1, nil)
				c.Close()
			},
			lost: func(_ *transport.Conn, err error) {
				if err != nil {
					t.Error(err)
				}
				if left--; left == 0 {
					l.Stop()
				}
			},
		})
		go func() {
			n, _ := io.Copy(io.Discard, peer)
			counts <- n
		}()
	}
	run(t, l)
	for range cap(counts) {
		if n := <-counts; n != int64(len(big)) {
			t.Errorf("%d of %d bytes arrived", n, len(big))
		}
	}
}
