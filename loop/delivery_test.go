package loop_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// TestReaderAndWriterRunInOneTurn: one event, both directions.
func TestReaderAndWriterRunInOneTurn(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		fds := socketpair(t)
		write(fds[1], "x")
		order := ""
		if err := errors.Join(
			l.AddWriter(fds[0], func() { order += "w" }),
			l.AddReader(fds[0], func() { order += "r" }),
		); err != nil {
			t.Fatal(err)
		}
		if n := once(t, l); n != 2 || order != "rw" {
			t.Fatalf("%d callbacks, order %q", n, order)
		}
	})
}

// TestReadinessIsLimitedToTheInterest hangs up, which makes both directions ready.
func TestReadinessIsLimitedToTheInterest(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		for in, want := range map[loop.Ready]loop.Ready{
			loop.Readable:                 loop.Readable | loop.HangUp,
			loop.Writable:                 loop.Writable | loop.HangUp,
			loop.Readable | loop.Writable: loop.Readable | loop.Writable | loop.HangUp,
		} {
			l := newLoop(t, opts)
			fds := socketpair(t)
			syscall.Close(fds[1])
			var got loop.Ready
			if _, err := l.Watch(fds[0], in, loop.Level, func(r loop.Ready) { got = r }); err != nil {
				t.Fatal(err)
			}
			once(t, l)
			if got != want {
				t.Errorf("interest %b: ready %b, want %b", in, got, want)
			}
		}
		// A reader without a writer, and a writer without a reader.
		l := newLoop(t, opts)
		a, b := socketpair(t), socketpair(t)
		syscall.Close(a[1])
		syscall.Close(b[1])
		order := ""
		l.AddReader(a[0], func() { order += "r" })
		l.AddWriter(b[0], func() { order += "w" })
		if n := once(t, l); n != 2 || len(order) != 2 {
			t.Errorf("%d callbacks, %q", n, order)
		}
	})
}

// TestFailureReachesWatch breaks a full pipe: there is an error and nothing else.
func TestFailureReachesWatch(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		var p [2]int
		if err := syscall.Pipe(p[:]); err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(p[1])
		syscall.SetNonblock(p[1], true)
		block := make([]byte, 64<<10)
		for {
			if _, err := syscall.Write(p[1], block); err != nil {
				break
			}
		}
		syscall.Close(p[0])
		var got loop.Ready
		w, err := l.Watch(p[1], loop.Writable, loop.Level, func(r loop.Ready) { got = r })
		if err != nil {
			t.Fatal(err)
		}
		defer w.Cancel()
		once(t, l)
		if got&(loop.Writable|loop.Failed) != loop.Writable|loop.Failed || got&loop.Readable != 0 {
			t.Errorf("ready %b", got)
		}
	})
}

// TestInterestChangedWithinTheBatch: the callback of the first of two ready descriptors
// changes the direction of the second. Readiness that was collected for the old direction
// is not delivered; readiness for the new one is.
func TestInterestChangedWithinTheBatch(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		var watches [2]loop.Watch
		var got []loop.Ready
		for i := range watches {
			fds := socketpair(t)
			write(fds[1], "x")
			var err error
			watches[i], err = l.Watch(fds[0], loop.Readable, loop.Level, func(r loop.Ready) {
				got = append(got, r)
				watches[i].Cancel()
				if err := watches[1-i].Modify(loop.Writable, loop.Level); err != nil && len(got) == 1 {
					t.Error(err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if n := once(t, l); n != 1 || got[0] != loop.Readable {
			t.Fatalf("first turn: %d callbacks, %b", n, got)
		}
		if n := once(t, l); n != 1 || got[1] != loop.Writable {
			t.Fatalf("second turn: %d callbacks, %b", n, got)
		}
	})
}

// TestRemovedHalfDoesNotWakeTheLoop: virtual time passes only in a wait.
func TestRemovedHalfDoesNotWakeTheLoop(t *testing.T) {
	l, v := newVirtual(t, loop.Options{})
	fds := socketpair(t)
	if err := errors.Join(l.AddReader(fds[0], func() {}), l.AddWriter(fds[0], func() {})); err != nil {
		t.Fatal(err)
	}
	l.RemoveWriter(fds[0])
	if n, err := l.RunOnce(time.Hour); n != 0 || err != nil || v.now != time.Hour {
		t.Fatalf("%d callbacks, %v; waited %v", n, err, v.now)
	}
}
