package cancelpoints_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spindleloop/spindle"
)

// offloaded runs work on workers. Work that has begun and is not abandoned has its result
// read.
func offloaded(st *stage, offload func(context.Context, func() (int, error)) (int, error), abandoned int) func() error {
	worked, got := 0, 0
	work := func(ctx context.Context) error {
		for range 3 {
			v, err := offload(ctx, func() (int, error) { worked++; return 1, nil })
			if err != nil {
				return err
			}
			got += v
		}
		return nil
	}
	st.Go(st.task(st.target(0, work)))
	st.Go(st.task(work))
	// Work that was abandoned may end after all tasks have: wait for it.
	st.Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Second) })
	return func() error {
		if lost := worked - got; lost < 0 || lost > abandoned || got < 3 {
			return fmt.Errorf("worked %d times, %d results", worked, got)
		}
		return nil
	}
}

// parked is a mailbox made of Park, with two receivers and two senders. Everything that was
// sent is received.
func parked(st *stage) func() error {
	type receiver struct {
		waker spindle.Waker
		value int
	}
	var letters []int
	var receivers []*receiver
	var sent, received []int
	send := func(v int) {
		sent = append(sent, v)
		if len(receivers) == 0 {
			letters = append(letters, v)
			return
		}
		r := receivers[0]
		receivers = receivers[1:]
		r.value = v
		r.waker.Wake(nil)
	}
	receive := func(ctx context.Context) error {
		for {
			r := new(receiver)
			if len(letters) > 0 {
				if err := spindle.Checkpoint(ctx); err != nil {
					return err
				}
			}
			if len(letters) > 0 {
				r.value, letters = letters[0], letters[1:]
			} else {
				var err error
				if r.waker, err = spindle.NewWaker(ctx); err != nil {
					return err
				}
				receivers = append(receivers, r)
				if err := r.waker.Park(ctx, "mailbox", spindle.AbortFunc(func() bool {
					at := slices.Index(receivers, r)
					if at < 0 {
						return false
					}
					receivers = slices.Delete(receivers, at, at+1)
					return true
				})); err != nil {
					return err
				}
			}
			if r.value < 0 {
				return nil
			}
			received = append(received, r.value)
		}
	}
	feed := func(from int) func(context.Context) error {
		return func(ctx context.Context) error {
			for v := from; v < from+5; v++ {
				send(v)
				if v%2 == 0 {
					if err := spindle.Yield(ctx); err != nil {
						return err
					}
				}
			}
			return nil
		}
	}
	st.Go(func(ctx context.Context) error {
		defer func() {
			for range 2 {
				send(-1) // the end for each
			}
		}()
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(feed(10))
			n.Go(st.task(st.target(1, feed(20))))
			return nil
		})
	})
	st.Go(st.task(st.target(0, receive)))
	st.Go(receive)
	return func() error {
		sent = slices.DeleteFunc(sent, func(v int) bool { return v < 0 })
		slices.Sort(sent)
		slices.Sort(received)
		if !slices.Equal(sent, received) {
			return fmt.Errorf("sent %v, received %v", sent, received)
		}
		return nil
	}
}

// lotted is one task that wakes three others six times. A task that was woken continues,
// and a task that was cancelled was not woken.
func lotted(st *stage) func() error {
	var lot spindle.Lot
	given, taken, over := 0, 0, false
	take := func(ctx context.Context) error {
		for !over {
			if err := lot.Wait(ctx, "gift"); err != nil {
				return err
			}
			if !over {
				taken++
			}
		}
		return nil
	}
	st.Go(take)
	st.Go(st.task(st.target(0, take)))
	st.Go(take)
	st.Go(func(ctx context.Context) error {
		for given < 6 {
			given += lot.Wake(1)
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
		over = true
		lot.Wake(3)
		return nil
	})
	return func() error {
		if given != taken || !lot.Empty() {
			return fmt.Errorf("%d given, %d taken, tasks left: %v", given, taken, !lot.Empty())
		}
		return nil
	}
}
