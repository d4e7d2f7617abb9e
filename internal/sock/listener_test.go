package sock_test

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
)

// listening is a listener on descriptor 7, which is always ready, and what it told.
type listening struct {
	*sock.Listener
	accepted int
	told     []error
	onAccept func()
	onError  func()
}

func listen(t *testing.T, f *fake, h *sock.Hub) *listening {
	t.Helper()
	ln := &listening{}
	f.open[7] = true
	var err error
	ln.Listener, err = h.Listen(7, func(fd int) {
		ln.accepted++
		h.K.CloseFD(fd)
		if ln.onAccept != nil {
			ln.onAccept()
		}
	}, func(err error) {
		ln.told = append(ln.told, err)
		if ln.onError != nil {
			ln.onError()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// look has the listener asked once.
func look(t *testing.T, h *sock.Hub) {
	t.Helper()
	if _, err := h.L.RunOnce(0); err != nil {
		t.Fatal(err)
	}
}

func TestBackOff(t *testing.T) {
	for _, fault := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		f, h := newFake(t)
		ln := listen(t, f, h)
		f.accepts = []error{nil, fault}
		look(t, h)
		if ln.accepted != 1 || len(ln.told) != 1 || ln.told[0] != fault {
			t.Fatalf("accepted %d, told of %v", ln.accepted, ln.told)
		}
		if len(f.watched) != 0 {
			t.Fatal("it does not look away")
		}
		turn(t, h) // and so the loop is at rest
		f.calls = nil
		f.accepts = slices.Repeat([]error{fault}, 3)
		for i := range 3 {
			before := f.now
			pass(t, h)
			if f.now-before < 10*time.Millisecond || f.count("Accept") != i+1 {
				t.Fatalf("rest %d took %v, %d accepts", i, f.now-before, f.count("Accept"))
			}
		}
		if len(ln.told) != 1 {
			t.Fatalf("told %d times of one spell", len(ln.told))
		}
		f.accepts = []error{nil, nil}
		if _, err := h.L.RunOnce(time.Hour); err != nil {
			t.Fatal(err)
		}
		look(t, h)
		if ln.accepted != 3 || len(f.watched) != 1 {
			t.Fatalf("accepted %d, watched %d", ln.accepted, len(f.watched))
		}
		f.accepts = []error{fault}
		look(t, h)
		if len(ln.told) != 2 {
			t.Fatalf("told %d times of two spells", len(ln.told))
		}
		ln.Close()
		if h.L.Stats().Timers != 0 {
			t.Fatal("a closed listener has a timer")
		}
	}
}

// TestAcceptBatch: a flood of connections leaves others their turn.
func TestAcceptBatch(t *testing.T) {
	f, h := newFake(t)
	ln := listen(t, f, h)
	f.accepts = make([]error, 1000)
	look(t, h)
	if ln.accepted == 0 || ln.accepted >= 500 {
		t.Errorf("%d accepted in one turn", ln.accepted)
	}
	f.accepts = slices.Repeat([]error{syscall.ECONNABORTED}, 1000)
	f.calls = nil
	look(t, h)
	if n := f.count("Accept"); n < 2 || n >= 500 || len(ln.told) != 0 {
		t.Errorf("%d accepts, told of %v", n, ln.told)
	}
}

// TestPauseAndResume: by itself, inside accept, in a rest, and of a listener that
// was closed.
func TestPauseAndResume(t *testing.T) {
	f, h := newFake(t)
	ln := listen(t, f, h)
	ln.Resume()
	ln.Pause()
	ln.Pause()
	f.accepts = make([]error, 3)
	turn(t, h)
	if ln.accepted != 0 || len(f.watched) != 0 {
		t.Error("it accepts while it is paused")
	}
	ln.onAccept = ln.Pause
	ln.Resume()
	look(t, h)
	if ln.accepted != 1 {
		t.Errorf("%d accepted after a pause", ln.accepted)
	}
	ln.onAccept = nil
	f.accepts = []error{syscall.EMFILE}
	ln.Resume()
	look(t, h)
	ln.Pause()
	if n := h.L.Stats().Timers; n != 0 {
		t.Errorf("%d timers while it is paused", n)
	}
	f.accepts = make([]error, 2)
	ln.Resume()
	look(t, h)
	if ln.accepted != 3 {
		t.Errorf("%d accepted", ln.accepted)
	}
	ln.onAccept = func() { ln.Close() }
	f.accepts = make([]error, 5)
	look(t, h)
	if ln.accepted != 4 || ln.FD() != -1 || f.open[7] {
		t.Errorf("%d accepted, descriptor %d", ln.accepted, ln.FD())
	}
	ln.Resume()
	if err := ln.Close(); err != nil || f.count("Close") != 5 {
		t.Errorf("closed %d times, %v", f.count("Close"), err)
	}
}

// TestCannotWatchAgain: a listener that cannot be watched after a rest rests again.
func TestCannotWatchAgain(t *testing.T) {
	f, h := newFake(t)
	ln := listen(t, f, h)
	f.accepts = []error{syscall.EMFILE}
	look(t, h)
	f.refuse["Add"] = syscall.ENOMEM
	pass(t, h)
	pass(t, h)
	if len(ln.told) != 1 || f.count("Add") != 3 {
		t.Errorf("told of %v, %d tries", ln.told, f.count("Add"))
	}
	delete(f.refuse, "Add")
	f.accepts = []error{nil}
	pass(t, h)
	look(t, h)
	if ln.accepted != 1 {
		t.Errorf("%d accepted", ln.accepted)
	}
	ln.Pause()
	f.refuse["Add"] = syscall.ENOMEM
	ln.Resume()
	if len(ln.told) != 2 || !errors.Is(ln.told[1], syscall.ENOMEM) {
		t.Errorf("told of %v", ln.told)
	}
	delete(f.refuse, "Add")
	f.accepts = []error{nil}
	pass(t, h)
	look(t, h)
	if ln.accepted != 2 {
		t.Errorf("%d accepted", ln.accepted)
	}
	if _, err := h.Listen(8, nil, nil); err != nil {
		t.Error(err)
	}
	f.refuse["Add"] = syscall.ENOMEM
	if _, err := h.Listen(9, nil, nil); !errors.Is(err, syscall.ENOMEM) {
		t.Error(err)
	}
}

// TestBind: a step that fails closes the descriptor.
func TestBind(t *testing.T) {
	for _, step := range []string{"Socket", "SetOption", "Bind", "Listen"} {
		f, h := newFake(t)
		f.refuse[step] = syscall.EADDRINUSE
		fd, err := h.Bind(addr("::1"), sock.Binding{ReusePort: true, V6Only: true})
		if fd != -1 || err != syscall.EADDRINUSE {
			t.Errorf("%s: %d, %v", step, fd, err)
		}
	}
	f, h := newFake(t)
	fd, err := h.Bind(addr("::1"), sock.Binding{ReusePort: true, V6Only: true})
	if err != nil || f.count("SetOption") != 3 {
		t.Errorf("%d options, %v", f.count("SetOption"), err)
	}
	h.K.CloseFD(fd)
	fd, err = h.Bind(kernel.Addr{Path: "@x"}, sock.Binding{})
	if err != nil || f.count("SetOption") != 3 {
		t.Errorf("%d options, %v", f.count("SetOption"), err)
	}
	h.K.CloseFD(fd)
}
