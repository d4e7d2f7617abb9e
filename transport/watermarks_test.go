package transport_test

import (
	"net"
	"sync"
	"testing"

	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// pump writes n bytes in blocks, and stops while writing is paused.
type pump struct {
	left      int
	block     []byte
	maxUnsent int // that waited to be sent
	paused    bool
	pauses    int
}

func (p *pump) run(c *transport.Conn) {
	for range 64 {
		if p.left == 0 || p.paused || c.IsClosing() {
			break
		}
		n := min(p.left, len(p.block))
		c.Write(p.block[:n])
		p.left -= n
		p.maxUnsent = max(p.maxUnsent, c.Unsent())
		if c.Unsent() > 0 { // PauseWriting is called between callbacks
			break
		}
	}
	if p.left == 0 {
		c.Close()
	} else if !p.paused {
		c.Loop().CallSoon(func() { p.run(c) })
	}
}

func (p *pump) spy() *spy {
	return &spy{
		made: p.run,
		lost: func(*transport.Conn, error) { p.paused = true },
		pause: func(c *transport.Conn) {
			p.paused = true
			p.pauses++
		},
		resume: func(c *transport.Conn) {
			p.paused = false
			p.run(c)
		},
	}
}

const (
	high  = 64 << 10 // the default
	slack = 1 << 20  // of a measurement
)

// TestPeerThatNeverReads: a protocol that stops at PauseWriting writes 1 GB to a peer
// that starts reading late. No more than the high water mark and a block is ever
// queued, and memory does not grow.
func TestPeerThatNeverReads(t *testing.T) {
	total := 1 << 30
	if short.UnderRace || testing.Short() {
		total >>= 3
	}
	onPollers(t, func(t *testing.T, o loop.Options) {
		p := &pump{left: total, block: block(64 << 10)}
		l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{}, p.spy)
		before := heapInUse()
		c := dial(t, s)
		until.OnLoop(t, l, func() bool { return p.paused })
		wantIdle(t, l)
		if after := heapInUse(); after > before+high+slack {
			t.Errorf("memory grew by %d bytes", after-before)
		}
		if n := drainAll(c); n != int64(total) {
			t.Errorf("%d of %d bytes arrived", n, total)
		}
		on(t, l, func() {
			if p.maxUnsent > high+len(p.block) {
				t.Errorf("%d bytes were queued", p.maxUnsent)
			}
		})
	})
}

// wantIdle checks that a loop does nothing for a while.
func wantIdle(t testing.TB, l *loop.Loop) {
	t.Helper()
	done := make(chan bool)
	on(t, l, func() {
		turns := l.Stats().Turns
		l.CallLater(20e6, func() {
			if n := l.Stats().Turns - turns; n > 4 {
				t.Errorf("%d turns while there is nothing to do", n)
			}
			close(done)
		})
	})
	<-done
}

// TestWaterMarks: with a slow reader, PauseWriting is called once at the high water mark
// and ResumeWriting once at the low one.
func TestWaterMarks(t *testing.T) {
	const hi, lo = 300_000, 100_000
	onPollers(t, func(t *testing.T, o loop.Options) {
		var log []string
		conn := make(chan *transport.Conn, 1)
		l, s := serving(t, o, "unix", abstract(), transport.Options{}, func() *spy {
			return &spy{
				made: func(c *transport.Conn) {
					c.SetWriteLimits(hi, lo)
					conn <- c
				},
				pause: func(c *transport.Conn) {
					if c.Unsent() <= hi {
						t.Errorf("paused at %d", c.Unsent())
					}
					log = append(log, "pause")
				},
				resume: func(c *transport.Conn) {
					if c.Unsent() > lo {
						t.Errorf("resumed at %d", c.Unsent())
					}
					log = append(log, "resume")
				},
			}
		})
		peer := dial(t, s)
		c := <-conn
		on(t, l, func() {
			for c.Unsent() < hi { // exactly the mark is not above it
				c.Write(make([]byte, min(5000, hi-c.Unsent())))
			}
		})
		on(t, l, func() {
			if len(log) != 0 {
				t.Errorf("%v at the mark", log)
			}
			c.Write([]byte{1})
			c.Write(make([]byte, hi))
			if len(log) != 0 {
				t.Errorf("%v inside Write", log)
			}
		})
		on(t, l, func() {
			if len(log) != 1 || log[0] != "pause" {
				t.Errorf("%v above the mark", log)
			}
		})
		buf := make([]byte, 10_000)
		for unsent := hi; unsent > lo; {
			if _, err := peer.Read(buf); err != nil {
				t.Fatal(err)
			}
			on(t, l, func() { unsent = c.Unsent() })
		}
		on(t, l, func() {})
		on(t, l, func() {
			if len(log) != 2 || log[1] != "resume" {
				t.Errorf("%v below the mark", log)
			}
			c.Abort()
		})
		drainAll(peer)
	})
}

// TestSetProtocolWhilePaused: a new protocol gets PauseWriting too, because the pause
// belongs to the connection.
func TestSetProtocolWhilePaused(t *testing.T) {
	var log []string
	said := func(what string) func(*transport.Conn) {
		return func(*transport.Conn) { log = append(log, what) }
	}
	next := &spy{tb: t, isMade: true, pause: said("next paused"), resume: said("next resumed")}
	conn := make(chan *transport.Conn, 1)
	l, s := serving(t, loop.Options{}, "unix", abstract(), transport.Options{}, func() *spy {
		return &spy{
			made:   func(c *transport.Conn) { conn <- c },
			pause:  said("first paused"),
			resume: said("first resumed"),
		}
	})
	peer := dial(t, s)
	c := <-conn
	on(t, l, func() { c.Write(make([]byte, 1<<20)) })
	on(t, l, func() { c.SetProtocol(next) })
	on(t, l, func() { c.AfterFlush(func(error) { c.Loop().CallLater(1e6, func() { c.Close() }) }) })
	drainAll(peer)
	until.OnLoop(t, l, func() bool { return next.isLost })
	on(t, l, func() {
		if len(log) != 3 || log[0] != "first paused" || log[1] != "next paused" || log[2] != "next resumed" {
			t.Errorf("%q", log)
		}
	})
}

// TestThousandSlowReaders: each reader gets all of its bytes, and none delays another.
func TestThousandSlowReaders(t *testing.T) {
	readers, size := short.Of(1000), 300_000
	l, s := serving(t, loop.Options{}, "unix", abstract(), transport.Options{}, func() *spy {
		return (&pump{left: size, block: make([]byte, 32<<10)}).spy()
	})
	var conns []net.Conn
	for range readers {
		conns = append(conns, dial(t, s))
	}
	until.OnLoop(t, l, func() bool { return s.Conns() == readers })
	var done sync.WaitGroup
	for part := range 4 {
		done.Go(func() {
			buf := make([]byte, 100_000)
			for round := 0; round < size; round += len(buf) {
				for i := part; i < readers; i += 4 {
					for got := 0; got < len(buf); {
						n, err := conns[i].Read(buf[got:])
						if err != nil {
							t.Errorf("reader %d: %v", i, err)
							return
						}
						got += n
					}
				}
			}
			for i := part; i < readers; i += 4 {
				if n := drainAll(conns[i]); n != 0 {
					t.Errorf("reader %d: %d bytes too many", i, n)
				}
				conns[i].Close()
			}
		})
	}
	done.Wait()
	until.OnLoop(t, l, func() bool { return s.Conns() == 0 })
}
