package loop_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/loop"
)

// socketpair returns two connected, non-blocking sockets.
func socketpair(tb testing.TB) [2]int {
	tb.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		tb.Fatal(err)
	}
	for _, fd := range fds {
		if err := syscall.SetNonblock(fd, true); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { syscall.Close(fd) })
	}
	return fds
}

func write(fd int, s string) {
	if n, err := syscall.Write(fd, []byte(s)); err != nil || n != len(s) {
		panic(err)
	}
}

func read(fd int) string {
	var buf [64]byte
	n, err := syscall.Read(fd, buf[:])
	if err != nil {
		return err.Error()
	}
	return string(buf[:n])
}

func TestReaderAndWriterOfOneDescriptor(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		fds := socketpair(t)
		var order []string
		if err := l.AddReader(fds[0], func() {
			order = append(order, "read "+read(fds[0]))
			l.RemoveReader(fds[0])
			l.Stop()
		}); err != nil {
			t.Fatal(err)
		}
		if err := l.AddWriter(fds[0], func() {
			order = append(order, "write")
			if !l.RemoveWriter(fds[0]) || l.RemoveWriter(fds[0]) {
				t.Error("RemoveWriter: want true, then false")
			}
			write(fds[1], "x") // only now is there something to read
		}); err != nil {
			t.Fatal(err)
		}
		if s := l.Stats(); s.FDs != 1 {
			t.Errorf("%d descriptors", s.FDs)
		}
		run(t, l)
		if !slices.Equal(order, []string{"write", "read x"}) {
			t.Fatal(order)
		}
		if s := l.Stats(); s.FDs != 0 || s.Events != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAddedTwiceIsAnError(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		fds := socketpair(t)
		nop := func() {}
		if err := l.AddReader(fds[0], nop); err != nil {
			t.Fatal(err)
		}
		err := l.AddReader(fds[0], nop)
		if !errors.Is(err, fs.ErrExist) {
			t.Errorf("second reader: %v", err)
		}
		if text := err.Error(); !strings.HasPrefix(text, "loop: AddReader: fd ") || strings.Count(text, "loop:") != 1 {
			t.Errorf("text %q", text)
		}
		if _, err := l.Watch(fds[0], loop.Readable, loop.Level, func(loop.Ready) {}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("watch beside a reader: %v", err)
		}
		if _, err := l.Watch(fds[1], loop.Readable, loop.Level, func(loop.Ready) {}); err != nil {
			t.Fatal(err)
		}
		if err := l.AddWriter(fds[1], nop); !errors.Is(err, fs.ErrExist) {
			t.Errorf("writer beside a watch: %v", err)
		}
		if l.RemoveReader(fds[1]) {
			t.Error("RemoveReader ended a watch")
		}
	})
}

func TestDescriptorsThatCannotBeWatched(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := l.AddReader(int(f.Fd()), func() {}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a file: %v", err)
		}
		fds := socketpair(t)
		syscall.Close(fds[0])
		if err := l.AddReader(fds[0], func() {}); !errors.Is(err, syscall.EBADF) {
			t.Errorf("a closed descriptor: %v", err)
		}
		if s := l.Stats(); s.FDs != 0 {
			t.Errorf("%d descriptors after failures", s.FDs)
		}
	})
}

// TestReusedNumberNeverSeesOldEvents: of two descriptors in one batch, the first callback
// closes the other one, and a new descriptor takes that number.
func TestReusedNumberNeverSeesOldEvents(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		a, b := socketpair(t), socketpair(t)
		write(a[1], "x")
		write(b[1], "x")
		watches := map[int]loop.Watch{}
		reused := false
		meet := func(me, other int) func(loop.Ready) {
			return func(loop.Ready) {
				watches[me].Cancel()
				if _, ok := watches[other]; !ok || reused {
					return
				}
				watches[other].Cancel()
				syscall.Close(other)
				fresh, err := syscall.Dup(a[1]) // takes the lowest free number
				if err != nil {
					t.Fatal(err)
				}
				if fresh != other {
					t.Fatalf("got descriptor %d, want %d again", fresh, other)
				}
				reused = true
				if err := l.AddReader(fresh, func() { t.Error("the new descriptor got the event of the old one") }); err != nil {
					t.Error(err)
				}
				l.CallSoon(func() { l.CallSoon(l.Stop) })
			}
		}
		for _, pair := range [][2]int{{a[0], b[0]}, {b[0], a[0]}} {
			w, err := l.Watch(pair[0], loop.Readable, loop.Level, meet(pair[0], pair[1]))
			if err != nil {
				t.Fatal(err)
			}
			watches[pair[0]] = w
		}
		run(t, l)
	})
}

// TestInterestDroppedWithinTheBatch: the callback of the first of two ready descriptors
// ends the interest in both. What was collected for the second is not delivered.
func TestInterestDroppedWithinTheBatch(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		a, b := socketpair(t), socketpair(t)
		calls := 0
		both := func() {
			calls++
			l.RemoveReader(a[0])
			l.RemoveReader(b[0])
			l.CallSoon(func() { l.CallSoon(l.Stop) })
		}
		for _, fds := range [][2]int{a, b} {
			write(fds[1], "x")
			if err := l.AddReader(fds[0], both); err != nil {
				t.Fatal(err)
			}
		}
		run(t, l)
		if calls != 1 {
			t.Fatalf("%d calls", calls)
		}
		// A reader that removes the writer of the same descriptor, both ready.
		calls = 0
		if err := l.AddWriter(a[0], func() { calls++ }); err != nil {
			t.Fatal(err)
		}
		if err := l.AddReader(a[0], func() {
			l.RemoveReader(a[0])
			l.RemoveWriter(a[0])
			l.CallSoon(l.Stop)
		}); err != nil {
			t.Fatal(err)
		}
		run(t, l)
		if calls != 0 {
			t.Fatal("a removed writer was called")
		}
	})
}

func TestHalfCloseIsReportedAndDoesNotSpin(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		fds := socketpair(t)
		write(fds[1], "bye")
		if err := syscall.Shutdown(fds[1], syscall.SHUT_WR); err != nil {
			t.Fatal(err)
		}
		ends := 0
		if err := l.AddReader(fds[0], func() {
			switch got := read(fds[0]); got {
			case "bye":
			case "":
				ends++
				l.RemoveReader(fds[0])
				write(fds[0], "still here")
				l.Stop()
			default:
				t.Errorf("read %q", got)
			}
		}); err != nil {
			t.Fatal(err)
		}
		run(t, l)
		if got := read(fds[1]); ends != 1 || got != "still here" {
			t.Fatalf("%d ends, then %q", ends, got)
		}
		// Without interest in reading, the hang-up must not wake the loop. The
		// socket is full, so that it is not writable either.
		block := make([]byte, 64<<10)
		for {
			if _, err := syscall.Write(fds[0], block); err != nil {
				break
			}
		}
		if err := l.AddWriter(fds[0], func() { t.Error("a full socket is writable") }); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if n, err := l.RunOnce(0); n != 0 || err != nil {
				t.Fatalf("%d callbacks, %v", n, err)
			}
		}
	})
}

func TestOneShotAndModify(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		fds := socketpair(t)
		write(fds[1], "x")
		calls := 0
		w, err := l.Watch(fds[0], loop.Readable, loop.OneShot, func(r loop.Ready) {
			if r&loop.Readable == 0 {
				t.Errorf("ready %b", r)
			}
			calls++
		})
		if err != nil {
			t.Fatal(err)
		}
		for turn, want := range []int{1, 1, 1} {
			l.RunOnce(0)
			if calls != want {
				t.Fatalf("turn %d: %d calls", turn, calls)
			}
		}
		if err := w.Modify(loop.Readable, loop.OneShot); err != nil {
			t.Fatal(err)
		}
		l.RunOnce(0)
		if calls != 2 {
			t.Fatalf("%d calls after arming again", calls)
		}
		if !w.Cancel() || w.Cancel() {
			t.Error("Cancel: want true, then false")
		}
		if err := w.Modify(loop.Readable, loop.Level); fmt.Sprint(err) != "loop: descriptor is not watched" {
			t.Errorf("Modify of a cancelled watch: %v", err)
		}
	})
}

func TestHangUpReachesWatch(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		fds := socketpair(t)
		write(fds[1], "last words")
		syscall.Close(fds[1])
		if _, err := l.Watch(fds[0], loop.Readable, loop.Edge, func(r loop.Ready) {
			if r&(loop.Readable|loop.HangUp) != loop.Readable|loop.HangUp {
				t.Errorf("ready %b", r)
			}
			l.Stop()
		}); err != nil {
			t.Fatal(err)
		}
		run(t, l)
		if got := read(fds[0]); got != "last words" {
			t.Errorf("read %q", got)
		}
	})
}

func TestManyDescriptors(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		const many = 600 // more than one batch of events
		left := many
		for range many {
			fds := socketpair(t)
			write(fds[1], "x")
			if err := l.AddReader(fds[0], func() {
				l.RemoveReader(fds[0])
				if left--; left == 0 {
					l.Stop()
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		run(t, l)
	})
}
