package proc

import (
	"context"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/loop"
)

// subscription delivers signals to one receiver. Loop goroutine only.
type subscription struct {
	st      *loopState
	ch      chan os.Signal
	deliver func(os.Signal)
	closed  bool
}

// signalBuffer is the capacity of the channel from os/signal to the goroutine that
// posts to the loop. It exceeds the number of signals, which is enough: the runtime
// keeps only one pending signal of each kind.
const signalBuffer = 256

func (st *loopState) subscribe(sigs []os.Signal, tell func(os.Signal)) (*subscription, error) {
	if len(sigs) == 0 {
		panic("proc: no signals named") // os/signal would subscribe to all signals, including the runtime's
	}
	if err := checkSupported(st.l, "signals"); err != nil {
		return nil, err
	}
	for _, sig := range sigs {
		if sig == syscall.SIGKILL || sig == syscall.SIGSTOP {
			return nil, fmt.Errorf("proc: signal %q cannot be caught: %w", sig, syscall.EINVAL)
		}
	}
	s := &subscription{st: st, ch: make(chan os.Signal, signalBuffer), deliver: tell}
	st.subscriptions[s] = true
	signal.Notify(s.ch, sigs...)
	st.l.Internal().Kernel().Start(func() {
		for sig := range s.ch {
			// A signal that arrives while the loop closes has no receiver.
			_ = st.l.Internal().Post(atclose.Drop, func() {
				if !s.closed {
					s.deliver(sig)
				}
			})
		}
	})
	return s, nil
}

func (s *subscription) close() {
	if s.closed {
		return
	}
	s.closed = true
	delete(s.st.subscriptions, s)
	signal.Stop(s.ch)
	close(s.ch) // signal.Stop has ended all sends
}

// OnSignal calls fn on the loop for each of the signals that arrives, until stop is
// called or the loop is closed. Several receivers may subscribe to one signal. When
// the last one unsubscribes, the signal has its previous effect again. OnSignal and
// stop must be called on the loop's goroutine. It corresponds to asyncio's
// add_signal_handler.
//
// As in os/signal, signals of one kind that arrive in quick succession may be
// delivered as one; a single signal is never lost. OnSignal fails for SIGKILL and
// SIGSTOP, and in a simulated run with an error that wraps errors.ErrUnsupported. It
// panics if no signals are given.
func OnSignal(l *loop.Loop, fn func(os.Signal), sigs ...os.Signal) (stop func(), err error) {
	if fn == nil {
		panic("proc: OnSignal with a nil function")
	}
	s, err := loopStateOf(l).subscribe(sigs, fn)
	if err != nil {
		return nil, err
	}
	return s.close, nil
}

// SignalReceiver receives signals in the tasks of one loop. Signals creates one.
type SignalReceiver struct {
	sub    *subscription
	unbind func() bool

	// Loop goroutine only.
	pending []os.Signal
	waiters spindle.Lot
}

// Signals returns a receiver for signals that arrive from now on, until Close or the
// end of ctx's scope:
//
//	sigs, err := proc.Signals(ctx, os.Interrupt, syscall.SIGTERM)
//	if err != nil {
//		return err
//	}
//	defer sigs.Close()
//	for sig, err := range sigs.All(ctx) {
//		…
//	}
//
// Each of several receivers gets every signal. Signals fails as OnSignal does. It
// corresponds to Trio's open_signal_receiver.
func Signals(ctx context.Context, sigs ...os.Signal) (*SignalReceiver, error) {
	l := spindle.LoopOf(ctx)
	r := &SignalReceiver{}
	var err error
	if r.sub, err = loopStateOf(l).subscribe(sigs, r.deliver); err != nil {
		return nil, err
	}
	r.unbind = l.Internal().AfterFunc(ctx, r.stop) // if the loop closes first, LoopClosing closes the subscription
	return r, nil
}

// maxPending limits the queue of pending signals. Beyond it, a signal of a kind that
// is already pending is dropped: it would carry no news.
const maxPending = 1024

func (r *SignalReceiver) deliver(sig os.Signal) {
	if len(r.pending) >= maxPending && slices.Contains(r.pending, sig) {
		return
	}
	r.pending = append(r.pending, sig)
	r.waiters.Wake(1)
}

var errReceiverClosed = fmt.Errorf("proc: Next on a closed SignalReceiver: %w", os.ErrClosed)

// Next waits for a signal and returns it. After Close it fails with os.ErrClosed, by errors.Is.
func (r *SignalReceiver) Next(ctx context.Context) (os.Signal, error) {
	if err := spindle.Checkpoint(ctx); err != nil {
		return nil, err
	}
	for len(r.pending) == 0 {
		if r.sub.closed {
			return nil, errReceiverClosed
		}
		if err := r.waiters.Wait(ctx, "SignalReceiver.Next"); err != nil {
			return nil, err
		}
	}
	sig := r.pending[0]
	r.pending = r.pending[1:]
	return sig, nil
}

// All yields the signals as they arrive, until Close. If ctx is cancelled, it yields
// the cancellation and stops.
func (r *SignalReceiver) All(ctx context.Context) iter.Seq2[os.Signal, error] {
	return func(yield func(os.Signal, error) bool) {
		for {
			sig, err := r.Next(ctx)
			if err == errReceiverClosed || !yield(sig, err) || err != nil {
				return
			}
		}
	}
}

// Close stops receiving. Pending calls of Next fail with os.ErrClosed. A signal without
// other receivers has its previous effect again.
func (r *SignalReceiver) Close() error {
	r.unbind()
	r.stop()
	return nil
}

func (r *SignalReceiver) stop() {
	r.sub.close()
	r.pending = nil
	r.waiters.Wake(1 << 30)
}
