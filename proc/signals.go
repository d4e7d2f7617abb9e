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
	"github.com/spindleloop/spindle/loop"
)

// subscription is one wish to be told of signals. Loop goroutine only.
type subscription struct {
	st     *station
	ch     chan os.Signal
	tell   func(os.Signal)
	closed bool
}

// ahead is how many signals os/signal may be ahead of the goroutine that brings
// them to the loop. More than there are kinds, it is enough: of one kind the
// runtime itself keeps only one.
const ahead = 256

func (st *station) subscribe(sigs []os.Signal, tell func(os.Signal)) (*subscription, error) {
	if len(sigs) == 0 {
		panic("proc: no signals named") // to os/signal it would mean all, those of the runtime too
	}
	if err := refuse(st.l, "signals"); err != nil {
		return nil, err
	}
	for _, sig := range sigs {
		if sig == syscall.SIGKILL || sig == syscall.SIGSTOP {
			return nil, fmt.Errorf("proc: signal %q cannot be caught: %w", sig, syscall.EINVAL)
		}
	}
	s := &subscription{st: st, ch: make(chan os.Signal, ahead), tell: tell}
	st.subscriptions[s] = true
	signal.Notify(s.ch, sigs...)
	st.l.Kernel().Start(func() {
		for sig := range s.ch {
			// A signal that comes as the loop is closed has no receiver.
			_ = st.l.PostWith(loop.DropAtClose, func() {
				if !s.closed {
					s.tell(sig)
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
	close(s.ch) // nothing is sent to it any more
}

// OnSignal has fn called on the loop for each of the signals that comes, until stop
// is called or the loop closed. Any number may be told of one signal. When nobody
// wants to be told any more, the signal does again what it did before. Both are for
// the loop's goroutine. It is asyncio's add_signal_handler.
//
// Signals of one kind that come faster than they are told may be one, as os/signal
// has it; none that comes alone is lost. It fails for SIGKILL and SIGSTOP, and with
// what is errors.ErrUnsupported where there is no real system below. No signals at
// all panic.
func OnSignal(l *loop.Loop, fn func(os.Signal), sigs ...os.Signal) (stop func(), err error) {
	if fn == nil {
		panic("proc: OnSignal with a nil function")
	}
	s, err := stationOf(l).subscribe(sigs, fn)
	if err != nil {
		return nil, err
	}
	return s.close, nil
}

// SignalReceiver is signals as events: Signals makes one. It is for tasks of one
// loop.
type SignalReceiver struct {
	sub    *subscription
	unbind func() bool

	// Loop goroutine only.
	came    []os.Signal
	waiting spindle.Lot
}

// Signals receives signals from now on, until Close, or the end of the scope that
// ctx is:
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
// Several receivers each get every signal. It fails as OnSignal does. It is Trio's
// open_signal_receiver.
func Signals(ctx context.Context, sigs ...os.Signal) (*SignalReceiver, error) {
	l := spindle.LoopOf(ctx)
	r := &SignalReceiver{}
	var err error
	if r.sub, err = stationOf(l).subscribe(sigs, r.tell); err != nil {
		return nil, err
	}
	r.unbind = l.Kernel().AfterFunc(ctx, func() {
		_ = l.PostWith(loop.DropAtClose, r.end) // LoopClosing ends it otherwise
	})
	return r, nil
}

// mostKept is how many signals wait to be asked for. From then on one of a kind
// that waits already is not kept: it would tell nothing new.
const mostKept = 1024

func (r *SignalReceiver) tell(sig os.Signal) {
	if len(r.came) >= mostKept && slices.Contains(r.came, sig) {
		return
	}
	r.came = append(r.came, sig)
	r.waiting.Wake(1)
}

// Next waits for a signal. After Close it fails with ErrClosed.
func (r *SignalReceiver) Next(ctx context.Context) (os.Signal, error) {
	if err := spindle.Checkpoint(ctx); err != nil {
		return nil, err
	}
	for len(r.came) == 0 {
		if r.sub.closed {
			return nil, ErrClosed
		}
		if err := r.waiting.Wait(ctx, "SignalReceiver.Next"); err != nil {
			return nil, err
		}
	}
	sig := r.came[0]
	r.came = r.came[1:]
	return sig, nil
}

// All yields the signals as they come, until Close. If ctx is cancelled, it yields
// that and stops.
func (r *SignalReceiver) All(ctx context.Context) iter.Seq2[os.Signal, error] {
	return func(yield func(os.Signal, error) bool) {
		for {
			sig, err := r.Next(ctx)
			if err == ErrClosed || !yield(sig, err) || err != nil {
				return
			}
		}
	}
}

// Close ends the receiving: who waits in Next fails with ErrClosed, and if nobody
// else receives a signal, it does again what it did before.
func (r *SignalReceiver) Close() error {
	r.unbind()
	r.end()
	return nil
}

func (r *SignalReceiver) end() {
	r.sub.close()
	r.came = nil
	r.waiting.Wake(1 << 30)
}
