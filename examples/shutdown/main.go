// Command shutdown accepts orders and carries them out until SIGINT or SIGTERM. Then it
// accepts no more and carries out those it has, starting none after half a minute. A second
// signal ends it at once.
//
//	go run ./examples/shutdown        and Ctrl-C
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
)

func main() {
	// A signal ends ctx; the end of ctx cancels every task of the run.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	s := &shop{pace: 20 * time.Millisecond, grace: 30 * time.Second, out: os.Stdout}
	err := spindle.Run(ctx, s.open)
	fmt.Println("ended:", err)
	fmt.Printf("accepted %d orders, did %d\n", s.accepted, s.done)
	if s.done < s.accepted {
		os.Exit(1)
	}
}

// shop is the state of the program. Only tasks of one loop touch it.
type shop struct {
	pace  time.Duration // of one order
	grace time.Duration // for the remaining orders after a signal
	out   io.Writer

	accepted, done int
}

func (s *shop) open(ctx context.Context) error {
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		tx, rx := cosync.NewChannel[int](8)
		n.Go(func(ctx context.Context) error { return s.accept(ctx, tx) })
		n.Go(func(ctx context.Context) error { return s.work(ctx, rx) })
		return nil
	})
}

// accept stops when it is cancelled. Closing the channel ends the worker's loop.
func (s *shop) accept(ctx context.Context, orders *cosync.Sender[int]) error {
	defer orders.Close()
	for order := 1; ; order++ {
		if err := orders.Send(ctx, order); err != nil {
			return err // this order was not accepted
		}
		s.accepted++
	}
}

// work is cancelled like every task. It does the remaining orders inside Grace, which
// outer cancellations do not reach; only the time-out of Grace does.
func (s *shop) work(ctx context.Context, orders *cosync.Receiver[int]) error {
	err := s.process(ctx, orders)
	fmt.Fprintln(s.out, "closing, with", s.accepted-s.done, "orders to do")
	late := spindle.Grace(ctx, s.grace, func(ctx context.Context) error { return s.process(ctx, orders) })
	if late != nil && !errors.Is(late, spindle.ErrTimeout) { // the rest stays undone
		return late
	}
	return err // the scope that was cancelled absorbs it
}

func (s *shop) process(ctx context.Context, orders *cosync.Receiver[int]) error {
	for order, err := range orders.All(ctx) {
		if err != nil {
			return err
		}
		if err := s.carryOut(ctx, order); err != nil {
			return err
		}
	}
	return nil
}

// carryOut does one order. The shield keeps it from being interrupted half-way.
func (s *shop) carryOut(ctx context.Context, order int) error {
	return spindle.Shield(ctx, func(ctx context.Context) error {
		if err := spindle.Sleep(ctx, s.pace); err != nil { // the work
			return err
		}
		s.done++
		fmt.Fprintln(s.out, "done:", order)
		return nil
	})
}
