package main

import (
	"context"
	"syscall"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

// coroutineEcho is the server as straight-line code: a task per connection.
type coroutineEcho struct {
	l     *loop.Loop
	k     *kernel.Kernel
	buf   []byte // every read goes here: tasks switch only where they wait
	tasks *spindle.Nursery
}

func newCoroutineEcho(l *loop.Loop) echoModel {
	return &coroutineEcho{l: l, k: l.Kernel(), buf: make([]byte, 64<<10)}
}

func (s *coroutineEcho) run(ctx context.Context) error {
	return spindle.RunnerOn(s.l, spindle.Options{}).Run(ctx, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			s.tasks = n
			return spindle.Sleep(ctx, 1<<62) // the acceptor starts tasks meanwhile
		})
	})
}

func (s *coroutineEcho) serve(fd int) {
	s.k.SetOption(fd, kernel.NoDelay, 1)
	c := &wire{s: s, fd: fd}
	s.tasks.Go(c.echo)
}

// wire is a socket to a task: reads and writes that wait.
type wire struct {
	s       *coroutineEcho
	fd      int
	watch   loop.Watch
	waker   spindle.Waker
	ready   loop.Ready // since the last wait
	drained bool       // a short read has emptied it
	waits   bool
}

// echo is the whole server, to one client.
func (c *wire) echo(ctx context.Context) error {
	defer c.s.k.CloseFD(c.fd)
	var err error
	if c.watch, err = c.s.l.Watch(c.fd, loop.Read, loop.Edge, c.told); err != nil {
		return nil // the client is gone already
	}
	defer c.watch.Cancel()
	for {
		n, err := c.read(ctx, c.s.buf)
		if n == 0 || err != nil {
			return err
		}
		if err := c.write(ctx, c.s.buf[:n]); err != nil {
			return err
		}
	}
}

// read reads what there is, waiting for it; 0 is the end, or a broken client.
func (c *wire) read(ctx context.Context, p []byte) (int, error) {
	for {
		if !c.drained {
			n, err := c.s.k.Recv(c.fd, p)
			c.drained = err == syscall.EAGAIN || n < len(p) && c.ready&loop.HangUp == 0
			if err != syscall.EAGAIN {
				return n, nil
			}
		}
		if err := c.wait(ctx, "client"); err != nil {
			return 0, err
		}
	}
}

// write writes all of p, waiting for room.
func (c *wire) write(ctx context.Context, p []byte) error {
	n, err := c.s.k.Send(c.fd, p)
	if n == len(p) {
		return nil
	}
	rest := append([]byte(nil), p[n:]...) // others use the buffer while we wait
	for len(rest) > 0 {
		if err != nil && err != syscall.EAGAIN {
			return nil // the read will see the end
		}
		if err := c.watch.Modify(loop.Write, loop.Edge); err != nil {
			return err
		}
		if err := c.wait(ctx, "room to write"); err != nil {
			return err
		}
		n, err = c.s.k.Send(c.fd, rest)
		rest = rest[n:]
	}
	c.drained = false
	return c.watch.Modify(loop.Read, loop.Edge)
}

// told is called by the loop when the socket is ready.
func (c *wire) told(r loop.Ready) {
	c.ready = r
	c.drained = false
	if c.waits {
		c.waits = false
		c.waker.Wake(nil)
	}
}

// wait waits until the socket is ready.
func (c *wire) wait(ctx context.Context, what string) (err error) {
	if c.waker, err = spindle.NewWaker(ctx); err != nil {
		return err
	}
	c.waits = true
	return c.waker.Park(ctx, what, c)
}

// Abort gives a wait up.
func (c *wire) Abort() bool {
	waited := c.waits
	c.waits = false
	return waited
}
