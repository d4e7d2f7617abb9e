//go:build mutants

package mutants

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/simsamples"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/transport"
)

// lateReader has a client read a greeting and its end, sooner or later.
func lateReader(w *sim.World) {
	w.Host("server").Serve(func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", ":7")
		if err != nil {
			return err
		}
		return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
			defer c.Close()
			_, err := c.Write([]byte("hello"))
			return err
		})
	})
	read := 0
	for i := range w.Amount("clients", 3) {
		w.Host(fmt.Sprint("client", i)).Go(func(ctx context.Context) error {
			c, err := stream.Dial(ctx, "tcp", "server:7")
			if err != nil {
				return err
			}
			defer c.Close()
			draw := rand.New(spindle.LoopOf(ctx).Internal().Kernel())
			if err := spindle.Sleep(ctx, time.Duration(draw.IntN(2000))*time.Microsecond); err != nil {
				return err
			}
			if _, err = io.ReadAll(c); err != nil {
				return err
			}
			read++
			return nil
		})
	}
	w.Eventually("a client has read everything", time.Minute, func() bool { return read > 0 })
}

// slowAnswers is a server that answers each question with it, after a while; by then
// the client may have gone, and another one may be there.
func slowAnswers(w *sim.World) {
	w.Host("server").Serve(func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", ":7")
		if err != nil {
			return err
		}
		return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
			line, err := bufio.NewReader(c).ReadString('\n')
			if err != nil {
				return nil
			}
			answers := spindle.RootNursery(ctx)
			answers.Go(func(ctx context.Context) error {
				draw := rand.New(spindle.LoopOf(ctx).Internal().Kernel())
				if err := spindle.Sleep(ctx, time.Duration(draw.IntN(5000))*time.Microsecond); err != nil {
					return err
				}
				c.Write([]byte(line))
				return nil
			})
			spindle.Sleep(ctx, 3*time.Millisecond)
			return c.Close()
		})
	})
	for i := range w.Amount("clients", 4) {
		client := w.Host(fmt.Sprint("client", i))
		client.Go(func(ctx context.Context) error {
			if err := spindle.Sleep(ctx, time.Duration(i)*3*time.Millisecond); err != nil {
				return err
			}
			c, err := stream.Dial(ctx, "tcp", "server:7")
			if err != nil {
				return err
			}
			defer c.Close()
			if _, err := fmt.Fprintln(c, client.Name()); err != nil {
				return err
			}
			answer, err := bufio.NewReader(c).ReadString('\n')
			if err == nil && strings.TrimSpace(answer) != client.Name() {
				return fmt.Errorf("the answer is for another client: %q", answer)
			}
			return nil
		})
	}
}

// lastWords is a server that says much and closes.
func lastWords(w *sim.World) {
	kilobytes := w.Amount("kilobytes", 300)
	w.Host("server").Serve(func(ctx context.Context) error {
		s, err := transport.Listen(spindle.LoopOf(ctx), "tcp", ":7", transport.Options{
			Protocol: func() transport.Protocol { return talker(kilobytes << 10) },
		})
		if err != nil {
			return err
		}
		defer s.Close()
		var forever spindle.Lot
		return forever.Wait(ctx, "the end")
	})
	w.Host("client").Go(func(ctx context.Context) error {
		c, err := stream.Dial(ctx, "tcp", "server:7")
		if err != nil {
			return err
		}
		defer c.Close()
		all, err := io.ReadAll(c)
		if err == nil && len(all) != kilobytes<<10 {
			err = fmt.Errorf("%d of %d bytes", len(all), kilobytes<<10)
		}
		return err
	})
}

// talker writes so many bytes and closes.
type talker int

func (n talker) ConnectionMade(c *transport.Conn) {
	c.Write(make([]byte, n))
	c.Close()
}
func (talker) DataReceived(*transport.Conn, []byte)  {}
func (talker) ConnectionLost(*transport.Conn, error) {}

// impatientConsumer gets items out of a queue, into which callbacks put them, and
// gives up now and then. Every item that was put is got.
func impatientConsumer(w *sim.World) {
	items := w.Amount("items", 20)
	host := w.Host("host")
	host.Go(func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		draw := rand.New(l.Internal().Kernel())
		while := func() time.Duration { return time.Duration(draw.IntN(20)+1) * time.Millisecond }
		q := cosync.NewQueue[int](items)
		put, got := 0, 0
		var produce func()
		produce = func() {
			q.TryPut(put)
			host.Note("put %d", put)
			if put++; put < items {
				l.CallLater(while(), produce)
			} else {
				q.Close()
			}
		}
		l.CallLater(while(), produce)
		for {
			_, err := spindle.MoveOnAfter(ctx, while(), func(ctx context.Context) error {
				item, err := q.Get(ctx)
				if err == nil {
					got++
					host.Note("got %d", item)
				}
				return err
			})
			if errors.Is(err, cosync.ErrClosed) {
				break
			}
			if err != nil {
				return err
			}
		}
		if got != items {
			return fmt.Errorf("%d items were put, %d were got", items, got)
		}
		return nil
	})
}

// replicas is the counter without the bug that was put there on purpose.
func replicas(w *sim.World) {
	p, _ := simsamples.Find("counter-fixed")
	p.World(p.Faults)(w)
}
