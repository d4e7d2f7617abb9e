package proc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/proc"
)

func send(t *testing.T, sigs ...syscall.Signal) {
	t.Helper()
	for _, sig := range sigs {
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Error(err)
		}
	}
}

func TestSeveralSignalsAtOnce(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		want := []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}
		sigs, err := proc.Signals(ctx, want[0], want[1], want[2], want[3])
		if err != nil {
			return err
		}
		defer sigs.Close()
		send(t, want...)
		var got []syscall.Signal
		for sig, err := range sigs.All(ctx) {
			if err != nil {
				return err
			}
			if got = append(got, sig.(syscall.Signal)); len(got) == len(want) {
				break
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("got %v", got)
		}
		return nil
	})
}

// TestNoSignalIsLost sends each signal after the previous one was received.
func TestNoSignalIsLost(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		sigs, err := proc.Signals(ctx, syscall.SIGUSR1)
		if err != nil {
			return err
		}
		defer sigs.Close()
		for range 200 {
			send(t, syscall.SIGUSR1)
			if sig, err := sigs.Next(ctx); sig != syscall.SIGUSR1 || err != nil {
				t.Errorf("%v, %v", sig, err)
				return err
			}
		}
		return nil
	})
}

func TestEveryReceiverGetsEverySignal(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		called := 0
		stop, err := proc.OnSignal(spindle.LoopOf(ctx), func(sig os.Signal) {
			if !spindle.LoopOf(ctx).Owns() || spindle.Current(ctx) != nil {
				t.Error("not a callback of the loop")
			}
			called++
		}, syscall.SIGUSR1)
		if err != nil {
			return err
		}
		var both []*proc.SignalReceiver
		for range 2 {
			sigs, err := proc.Signals(ctx, syscall.SIGUSR1, syscall.SIGUSR2)
			if err != nil {
				return err
			}
			defer sigs.Close()
			both = append(both, sigs)
		}
		send(t, syscall.SIGUSR1)
		for _, sigs := range both {
			if sig, err := sigs.Next(ctx); sig != syscall.SIGUSR1 || err != nil {
				t.Errorf("%v, %v", sig, err)
			}
		}
		for called == 0 {
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
		stop()
		stop()
		send(t, syscall.SIGUSR1) // the others still get it
		for _, sigs := range both {
			if sig, err := sigs.Next(ctx); sig != syscall.SIGUSR1 || err != nil {
				t.Errorf("%v, %v", sig, err)
			}
		}
		if called != 1 {
			t.Errorf("called %d times", called)
		}
		return nil
	})
}

// TestReceiverEnds covers Close, the end of the scope, and a cancelled wait, which
// consumes no signal.
func TestReceiverEnds(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		var sigs *proc.SignalReceiver
		err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) (err error) {
			if sigs, err = proc.Signals(ctx, syscall.SIGUSR1); err != nil {
				return err
			}
			expired, err := spindle.MoveOnAfter(ctx, time.Millisecond, func(ctx context.Context) error {
				_, err := sigs.Next(ctx)
				return err
			})
			if !expired || err != nil {
				t.Errorf("%v, %v", expired, err)
			}
			send(t, syscall.SIGUSR1)
			_, err = sigs.Next(ctx)
			return err
		})
		if err != nil {
			return err
		}
		if _, err := sigs.Next(ctx); !errors.Is(err, os.ErrClosed) { // at the latest when it has waited
			t.Errorf("after its scope: %v", err)
		}
		if sigs, err = proc.Signals(ctx, syscall.SIGUSR1); err != nil {
			return err
		}
		n.Go(func(ctx context.Context) error {
			for range sigs.All(ctx) {
				t.Error("an unexpected signal")
			}
			return nil
		})
		if err := spindle.Yield(ctx); err != nil {
			return err
		}
		return errors.Join(sigs.Close(), sigs.Close())
	})
}

func TestSignalsThatCannotBeCaught(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		for _, sig := range []os.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
			if _, err := proc.Signals(ctx, os.Interrupt, sig); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%v: %v", sig, err)
			}
		}
		return nil
	})
}

// TestSignalsAreRestored checks that a signal has its previous effect again after
// Close.
func TestSignalsAreRestored(t *testing.T) {
	eachVariant(t, func(t *testing.T, w variant, ctx context.Context, n *spindle.Nursery) error {
		cmd := w.role("receive")
		out, err := cmd.Output(ctx)
		var exit *exec.ExitError
		if string(out) != "terminated\nterminated\n" || !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
			t.Errorf("%q, %v", out, err)
		}
		return nil
	})
}

// receiveThenDie receives a signal in a task and in a callback and then dies of it.
// It does not use SIGHUP, which nohup makes processes ignore.
func receiveThenDie([]string) int {
	terminate := func() { syscall.Kill(os.Getpid(), syscall.SIGTERM) }
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		sigs, err := proc.Signals(ctx, syscall.SIGTERM)
		if err != nil {
			return err
		}
		defer sigs.Close()
		terminate()
		sig, err := sigs.Next(ctx)
		fmt.Println(sig)
		return err
	})
	if err == nil {
		err = spindle.Run(context.Background(), func(ctx context.Context) error {
			came := spindle.NewFuture[os.Signal](ctx)
			// The end of the loop ends the subscription.
			if _, err := proc.OnSignal(spindle.LoopOf(ctx), func(sig os.Signal) { came.Resolve(sig) }, syscall.SIGTERM); err != nil {
				return err
			}
			terminate()
			sig, err := came.Await(ctx)
			fmt.Println(sig)
			return err
		})
	}
	if err != nil {
		fmt.Println(err)
	}
	terminate()
	<-time.NewTimer(time.Hour).C // killed by the signal long before
	return 0
}

// repeat runs a program many times and checks that every run ends without an
// error.
func repeat(t *testing.T, rounds int, program func(ctx context.Context) error) {
	t.Helper()
	for i := range rounds {
		if err := spindle.Run(t.Context(), program); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
	}
}

// TestSignalsNeedNoClose checks that the end of the scope closes a receiver and that
// this does not count as lost work, even at the end of the run with a signal
// arriving at that moment.
func TestSignalsNeedNoClose(t *testing.T) {
	receive := func(ctx context.Context) error {
		_, err := proc.Signals(ctx, syscall.SIGUSR1)
		return err
	}
	t.Run("end of the run", func(t *testing.T) { repeat(t, short.Seeds(1000), receive) })
	t.Run("end of a scope", func(t *testing.T) {
		repeat(t, short.Seeds(1000), func(ctx context.Context) error {
			return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error { return receive(ctx) })
		})
	})
	outer := make(chan os.Signal, 1)
	notify(t, outer, syscall.SIGUSR1) // a late signal would end the program otherwise
	t.Run("signal at the end", func(t *testing.T) {
		repeat(t, short.Seeds(1000), func(ctx context.Context) error {
			if err := receive(ctx); err != nil {
				return err
			}
			send(t, syscall.SIGUSR1)
			return nil
		})
	})
	t.Run("OnSignal", func(t *testing.T) {
		for i := range short.Seeds(1000) {
			l, err := loop.New(loop.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := proc.OnSignal(l, func(os.Signal) {}, syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			send(t, syscall.SIGUSR1)
			if err := l.Close(); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
		}
	})
}
