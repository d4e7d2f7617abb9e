package transport_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestDataBeforeEOF: every byte is delivered before EOF.
func TestDataBeforeEOF(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		var got bytes.Buffer
		atEOF := -1
		lost := make(chan error, 1)
		_, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
			return &spy{
				data: func(c *transport.Conn, data []byte) { got.Write(data) },
				eof: func(c *transport.Conn) bool {
					atEOF = got.Len()
					return false
				},
				lost: func(c *transport.Conn, err error) { lost <- err },
			}
		})
		sent := block(1 << 20)
		c := dial(t, s)
		if _, err := c.Write(sent); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if err := <-lost; err != nil {
			t.Error(err)
		}
		if atEOF != len(sent) || !bytes.Equal(got.Bytes(), sent) {
			t.Errorf("%d of %d bytes delivered before EOF", atEOF, len(sent))
		}
	})
}

// TestDataAndEOFAtOnce: EOF that arrives together with data has no edge of its own.
func TestDataAndEOFAtOnce(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		made, lost := make(chan bool, 1), make(chan error, 1)
		var got []byte
		l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
			return &spy{
				made: func(c *transport.Conn) { made <- true },
				data: func(c *transport.Conn, data []byte) { got = append(got, data...) },
				lost: func(c *transport.Conn, err error) { lost <- err },
			}
		})
		c := dial(t, s)
		<-made
		on(t, l, func() { // both arrive before the loop polls
			c.Write([]byte("bye"))
			c.Close()
		})
		if err := <-lost; err != nil || string(got) != "bye" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// TestReadPastPassedDescriptor: a read of a Unix socket stops after the bytes that came
// with a descriptor, although more follow.
func TestReadPastPassedDescriptor(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		var got []byte
		made, lost := make(chan bool, 1), make(chan bool)
		l, s := serving(t, o, "unix", abstract(), transport.Options{}, func() *spy {
			return &spy{
				made: func(c *transport.Conn) { made <- true },
				data: func(c *transport.Conn, data []byte) {
					if got = append(got, data...); len(got) == 3 {
						c.Close()
					}
				},
				lost: func(c *transport.Conn, err error) { close(lost) },
			}
		})
		c := dial(t, s).(*net.UnixConn)
		<-made
		on(t, l, func() { // all three arrive before the loop polls
			c.Write([]byte("a"))
			if _, _, err := c.WriteMsgUnix([]byte("b"), syscall.UnixRights(0), nil); err != nil {
				t.Error(err)
			}
			c.Write([]byte("c"))
		})
		<-lost
		if string(got) != "abc" {
			t.Errorf("got %q", got)
		}
	})
}

// TestPauseReading: no data is delivered while reading is paused, not even to a
// BufferedProtocol. All of it, and EOF, is delivered after ResumeReading.
func TestPauseReading(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		var got []byte
		lost, conn := make(chan error, 1), make(chan *transport.Conn, 1)
		l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
			return &spy{
				made: func(c *transport.Conn) {
					c.PauseReading()
					conn <- c
				},
				data: func(c *transport.Conn, data []byte) {
					if !c.Info().Reading {
						t.Error("data while paused")
					}
					got = append(got, data...)
					c.PauseReading()
					c.PauseReading()
					c.Loop().CallLater(1e5, c.ResumeReading)
				},
				lost: func(c *transport.Conn, err error) { lost <- err },
			}
		})
		peer, c := dial(t, s), <-conn
		sent := block(300_000)
		peer.Write(sent)
		peer.Close()
		wantIdle(t, l)
		on(t, l, func() {
			if len(got) != 0 {
				t.Error("data while paused")
			}
			for range 3 {
				c.ResumeReading()
				c.PauseReading()
			}
			c.ResumeReading()
			c.ResumeReading()
		})
		if err := <-lost; err != nil || string(got) != string(sent) {
			t.Errorf("%d of %d bytes, %v", len(got), len(sent), err)
		}
	})
}

// TestHalfOpenConn: after EOF the protocol can keep writing, and the loop does not spin
// meanwhile.
func TestHalfOpenConn(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		for _, network := range []string{"tcp", "unix"} {
			address := "127.0.0.1:0"
			if network == "unix" {
				address = abstract()
			}
			half := make(chan *transport.Conn, 1)
			l, s := serving(t, o, network, address, transport.Options{}, func() *spy {
				return &spy{eof: func(c *transport.Conn) bool {
					half <- c
					return true
				}}
			})
			peer := dial(t, s)
			peer.(interface{ CloseWrite() error }).CloseWrite()
			c := <-half
			wantIdle(t, l)
			sent := block(2 << 20)
			on(t, l, func() {
				c.PauseReading()
				c.ResumeReading()
				c.Write(sent)
			})
			wantIdle(t, l)
			on(t, l, func() { c.AfterFlush(func(error) { c.Close() }) })
			if got, err := io.ReadAll(peer); string(got) != string(sent) || err != nil {
				t.Errorf("%d of %d bytes, %v", len(got), len(sent), err)
			}
			until.OnLoop(t, l, func() bool { return s.Conns() == 0 })
		}
	})
}

// TestResponseBeforeReset: data that a peer sends before a reset is delivered, although
// WriteEOF can no longer be sent to it.
func TestResponseBeforeReset(t *testing.T) {
	var got []byte
	made, lost := make(chan *transport.Conn, 1), make(chan error, 1)
	l, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
		return &spy{
			made: func(c *transport.Conn) { made <- c },
			data: func(c *transport.Conn, data []byte) { got = append(got, data...) },
			lost: func(c *transport.Conn, err error) { lost <- err },
		}
	})
	peer := dial(t, s)
	c := <-made
	on(t, l, func() { // the loop does not poll meanwhile
		peer.Write([]byte("so there"))
		reset(t, peer)
		if err := c.WriteEOF(); err != nil {
			t.Error(err)
		}
	})
	if err := <-lost; !errors.Is(err, syscall.ECONNRESET) || string(got) != "so there" {
		t.Errorf("got %q, lost with %v", got, err)
	}
}
