// Command shutdown takes in orders and works them off, until SIGINT or SIGTERM.
// Then it takes no more, works off those it has, beginning none after two
// seconds, and ends. A second signal ends it at once.
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
	s := &shop{pace: 20 * time.Millisecond, grace: 2 * time.Second, out: os.Stdout}
	err := spindle.Run(ctx, s.open)
	fmt.Println("ended:", err)
	fmt.Printf("took in %d orders, did %d\n", s.takenIn, s.done)
	if s.done < s.takenIn {
		os.Exit(1)
	}
}

// shop is the state of the program. Only tasks of one loop touch it.
type shop struct {
	pace  time.Duration // of the work
	grace time.Duration // for what is left to do at the end
	out   io.Writer

	takenIn, done int
}

func (s *shop) open(ctx context.Context) error {
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		tx, rx := cosync.NewChannel[int](8)
		n.Go(func(ctx context.Context) error { return s.takeIn(ctx, tx) })
		n.Go(func(ctx context.Context) error { return s.work(ctx, rx) })
		return nil
	})
}

// takeIn stops when it is cancelled. Closing the channel ends the worker's loop.
func (s *shop) takeIn(ctx context.Context, orders *cosync.Sender[int]) error {
	defer orders.Close()
	for order := 1; ; order++ {
		if err := orders.Send(ctx, order); err != nil {
			return err // this order was not taken in
		}
		s.takenIn++
	}
}

// work is cancelled like everything else. What it has to do nevertheless it does
// inside Grace, which cancellations do not reach, but its own time-out does.
func (s *shop) work(ctx context.Context, orders *cosync.Receiver[int]) error {
	err := s.workOff(ctx, orders)
	fmt.Fprintln(s.out, "closing, with", s.takenIn-s.done, "orders to do")
	late := spindle.Grace(ctx, s.grace, func(ctx context.Context) error { return s.workOff(ctx, orders) })
	if late != nil && !errors.Is(late, spindle.ErrTimeout) { // what is not done by then is not done
		return late
	}
	return err // the scope that was cancelled absorbs it
}

func (s *shop) workOff(ctx context.Context, orders *cosync.Receiver[int]) error {
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

// carryOut does one order. It is not to be left half done: hence the shield.
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
