//go:build linux

package load

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxEvents bounds one epoll batch.
	maxEvents = 256
	// clockEvery is how many sends share one clock read: a read costs about
	// 2 % of a request, and eight sends take some 15 µs.
	clockEvery = 8
	// stuckLimit is how long a server may leave all requests unanswered.
	stuckLimit = 5 * time.Second
)

// A client drives all connections from one thread. No field is shared.
type client struct {
	spin    bool
	talk    talk
	greet   func(fd int) error // what comes before the first message; nil for nothing
	depth   int                // messages in the next burst; 0: a connection rests after its echo
	burst   int                // room for one burst of one connection, bytes
	target  unix.SockaddrInet4
	epoll   int
	conns   []conn
	in      []byte // a burst's room for each connection, as echoes come in parts
	events  []unix.EpollEvent
	waiting int // connections with a burst in flight

	base    time.Time
	clock   time.Duration // last clock read, since base
	answer  time.Duration // clock at the last echo
	empty   time.Duration // clock at the last poll, if that found nothing, or 0
	idle    time.Duration // time between polls that found nothing
	latency Histogram
}

// A conn is one connection and its burst in flight.
type conn struct {
	fd   int
	seq  uint64        // of the burst in flight
	sent time.Duration // when it was sent
	want int           // its length, bytes
	got  int           // bytes of it that came back
}

// now reads the clock.
func (c *client) now() time.Duration {
	c.clock = time.Since(c.base)
	return c.clock
}

// send sends a new burst of depth messages on connection i.
func (c *client) send(i, depth int) error {
	cn := &c.conns[i]
	cn.seq++
	cn.want = depth * c.talk.answerBytes()
	cn.got = 0
	cn.sent = c.clock
	out := c.talk.burst(i, cn.seq, depth)
	n, err := sendNow(cn.fd, out)
	if err != nil {
		return fmt.Errorf("load: connection %d: send: %w", i, err)
	}
	if n != len(out) {
		// An empty socket takes a burst of a few kilobytes whole.
		return fmt.Errorf("load: connection %d: sent %d of %d bytes", i, n, len(out))
	}
	c.waiting++
	return nil
}

// verify looks at the answers to a complete burst.
func (c *client) verify(i int) error {
	cn := &c.conns[i]
	return c.talk.verify(i, cn.seq, c.in[i*c.burst:][:cn.want])
}

// runUntil answers echoes with new bursts until the clock, counted from base,
// reaches end.
func (c *client) runUntil(end time.Duration) error {
	c.answer = c.now()
	for c.clock < end {
		if err := c.turn(); err != nil {
			return err
		}
	}
	return nil
}

// rest waits until no burst is in flight.
func (c *client) rest() error {
	c.depth = 0
	c.answer = c.now()
	for c.waiting > 0 {
		if err := c.turn(); err != nil {
			return err
		}
	}
	return nil
}

// turn handles one batch of echoes.
func (c *client) turn() error {
	timeout := 100 // ms; bounds only how late the end of a window is seen
	if c.spin {
		timeout = 0
	}
	n, err := wait(c.epoll, c.events, timeout)
	if err != nil {
		return err
	}
	// All of the batch had arrived by now, so one read serves every latency.
	arrived := c.now()
	if n == 0 {
		if c.empty > 0 {
			c.idle += arrived - c.empty
		}
		c.empty = arrived
		if arrived-c.answer > stuckLimit {
			return fmt.Errorf("load: %d connections unanswered for %v", c.waiting, stuckLimit)
		}
		return nil
	}
	c.empty = 0
	c.answer = arrived
	sends := 0
	for k := range c.events[:n] {
		i := int(c.events[k].Fd)
		done, err := c.receive(i, c.events[k].Events)
		if err != nil {
			return err
		}
		if !done {
			continue
		}
		c.latency.Record(arrived - c.conns[i].sent)
		c.waiting--
		if c.depth == 0 {
			continue
		}
		if sends++; sends%clockEvery == 0 {
			c.now()
		}
		if err := c.send(i, c.depth); err != nil {
			return err
		}
	}
	return nil
}

var errEnded = errors.New("the server closed it")

// receive takes what came back on connection i and reports whether its burst
// is complete. It reads no further than the burst: with nothing more in
// flight the next edge comes with the next echo, and bytes too many would show
// up as a wrong number in it.
func (c *client) receive(i int, events uint32) (done bool, err error) {
	cn := &c.conns[i]
	if cn.got < cn.want {
		n, err := receiveNow(cn.fd, c.in[i*c.burst:][cn.got:cn.want])
		switch {
		case err == unix.EAGAIN:
			return false, nil
		case err != nil:
			return false, fmt.Errorf("load: connection %d: receive: %w", i, err)
		case n == 0:
			return false, fmt.Errorf("load: connection %d: %w", i, errEnded)
		}
		cn.got += n
		if cn.got < cn.want {
			return false, nil
		}
		return true, c.verify(i)
	}
	if events&(unix.EPOLLHUP|unix.EPOLLRDHUP|unix.EPOLLERR) != 0 {
		return false, fmt.Errorf("load: connection %d: %w", i, errEnded)
	}
	return false, nil
}
