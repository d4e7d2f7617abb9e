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
	// clockEvery is the number of sends that share one clock reading: a reading
	// costs about 2 % of a request, and eight sends take some 15 µs.
	clockEvery = 8
	// stuckLimit is how long all requests may stay unanswered.
	stuckLimit = 5 * time.Second
)

// A client drives all connections from one thread. No field is shared.
type client struct {
	spin      bool
	protocol  protocol
	handshake func(fd int) error // runs before the first message; may be nil
	depth     int                // messages in the next burst; 0: send no more bursts
	burst     int                // bytes of the answers to one burst
	target    unix.SockaddrInet4
	epoll     int
	conns     []conn
	slow      []int  // descriptors of the slow connections
	in        []byte // burst bytes for each connection, because answers come in parts
	events    []unix.EpollEvent
	waiting   int // connections with a burst in flight

	base    time.Time
	clock   time.Duration // the last clock reading, since base
	answer  time.Duration // clock at the last answer
	empty   time.Duration // clock at the last poll if it found nothing, or 0
	idle    time.Duration // time between polls that found nothing
	latency Histogram
}

// A conn is one connection and its burst in flight.
type conn struct {
	fd   int
	seq  uint64        // the number of the burst in flight
	sent time.Duration // the time at which it was sent
	want int           // bytes of its answers
	got  int           // bytes of them received so far
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
	cn.want = depth * c.protocol.answerBytes()
	cn.got = 0
	cn.sent = c.clock
	out := c.protocol.burst(i, cn.seq, depth)
	n, err := sendNow(cn.fd, out)
	if err != nil {
		return fmt.Errorf("load: connection %d: send: %w", i, err)
	}
	if n != len(out) {
		// An empty socket accepts a burst of a few kilobytes at once.
		return fmt.Errorf("load: connection %d: sent %d of %d bytes", i, n, len(out))
	}
	c.waiting++
	return nil
}

// verify checks the answers to a complete burst.
func (c *client) verify(i int) error {
	cn := &c.conns[i]
	return c.protocol.verify(i, cn.seq, c.in[i*c.burst:][:cn.want])
}

// runUntil sends a new burst for each complete one until the clock, counted from base,
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

// drain waits until no burst is in flight.
func (c *client) drain() error {
	c.depth = 0
	c.answer = c.now()
	for c.waiting > 0 {
		if err := c.turn(); err != nil {
			return err
		}
	}
	return nil
}

// turn handles one batch of answers.
func (c *client) turn() error {
	timeout := 100 // ms; limits only how late the end of a window is noticed
	if c.spin {
		timeout = 0
	}
	n, err := wait(c.epoll, c.events, timeout)
	if err != nil {
		return err
	}
	// The whole batch has arrived by now, so one clock reading serves every latency.
	arrived := c.now()
	if n == 0 {
		if c.empty > 0 {
			c.idle += arrived - c.empty
		}
		c.empty = arrived
		if arrived-c.answer > stuckLimit {
			return fmt.Errorf("load: the server has not answered %d connections for %v", c.waiting, stuckLimit)
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

var errEnded = errors.New("the server closed the connection")

// receive reads the answers on connection i and reports whether its burst is complete.
// It reads no further than the burst: with nothing more in flight, the next edge comes
// with the next answer, and excess bytes would show up as a wrong number in it.
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
