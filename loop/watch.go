package loop

import (
	"math"
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

// Interest is the set of directions of a descriptor to watch.
type Interest = kernel.Interest

// Directions to watch; both are Read|Write.
const (
	Read  = kernel.Read
	Write = kernel.Write
)

// Ready is what a watched descriptor is ready for.
type Ready = kernel.Ready

// What a descriptor can be ready for. HangUp comes with Readable: read to the end. Failed
// comes with every watched direction: the next call returns the reason. Urgent may come
// with Readable in Edge mode: a read then stops where TCP's urgent data begins, and a
// short read does not mean that there is no more.
const (
	Readable = kernel.Readable
	Writable = kernel.Writable
	HangUp   = kernel.HangUp
	Failed   = kernel.Failed
	Urgent   = kernel.Urgent
)

// Mode is how often a ready descriptor is reported.
type Mode = kernel.Mode

const (
	// Level reports it in every turn while it is ready.
	Level = kernel.Level
	// Edge reports it when it becomes ready: read or write until EAGAIN
	// (or, on a stream socket, until a short count). The poll backend has
	// no edges and repeats the report while the descriptor stays ready.
	Edge = kernel.Edge
	// OneShot reports it once; Watch.Modify arms it again.
	OneShot = kernel.OneShot
)

// Watch identifies a watched descriptor. The zero Watch identifies none.
type Watch struct {
	l   *Loop
	tok kernel.Token
}

// watch is the row of a descriptor. Either fn is set (Watch), or reader and writer
// (AddReader, AddWriter) for the directions in in.
type watch struct {
	fn             func(Ready)
	reader, writer func()
	fd             int32
	gen            uint32
	in             Interest
	mode           Mode
	pending        Ready  // collected by Poll, not yet run
	pendingAt      uint32 // where, in steps.collected
}

// Watch calls fn on the loop whenever fd is ready in a direction of in, as often as mode
// says. The descriptor should be non-blocking. The caller closes it, after Cancel. Watch
// fails with an *OpError: ErrExists if fd is watched already, EBADF if it is not open,
// ErrNotPollable if it can never be waited for.
func (l *Loop) Watch(fd int, in Interest, mode Mode, fn func(Ready)) (Watch, error) {
	l.core.Only("Watch")
	if fn == nil {
		panic("loop: Watch with a nil callback")
	}
	checkInterest(in, mode)
	w, tok, err := l.register("Watch", fd, in, mode)
	if err != nil {
		return Watch{}, err
	}
	w.fn = fn
	return Watch{l, tok}, nil
}

func checkInterest(in Interest, mode Mode) {
	if in == 0 || in&^(Read|Write) != 0 || mode > OneShot {
		panic("loop: watch with an unknown interest or mode")
	}
}

// Modify replaces interest and mode. It also arms a one-shot watch again.
func (w Watch) Modify(in Interest, mode Mode) error {
	row := w.row("Watch.Modify")
	if row == nil {
		return ErrNotWatched
	}
	checkInterest(in, mode)
	if err := w.l.k.Modify(int(row.fd), w.tok, in, mode); err != nil {
		return watchError("Watch.Modify", int(row.fd), err)
	}
	row.in, row.mode = in, mode
	return nil
}

// Cancel ends the watch. It reports whether there was one. Readiness that was already
// collected is not delivered.
func (w Watch) Cancel() bool {
	row := w.row("Watch.Cancel")
	if row == nil {
		return false
	}
	w.l.unregister(row, w.tok)
	return true
}

func (w Watch) row(op string) *watch {
	if w.l == nil || w.l.core.Closed() {
		return nil
	}
	w.l.core.Only(op)
	return w.l.watches.at(w.tok)
}

// AddReader calls fn in every turn in which fd is readable. It fails like Watch. A
// descriptor has one reader. Call RemoveReader before closing fd.
func (l *Loop) AddReader(fd int, fn func()) error { return l.addHalf("AddReader", fd, Read, fn) }

// AddWriter calls fn in every turn in which fd is writable. It fails like Watch. A
// descriptor has one writer. Call RemoveWriter before closing fd.
func (l *Loop) AddWriter(fd int, fn func()) error { return l.addHalf("AddWriter", fd, Write, fn) }

// RemoveReader removes the reader of fd. It reports whether there was one.
func (l *Loop) RemoveReader(fd int) bool { return l.removeHalf("RemoveReader", fd, Read) }

// RemoveWriter removes the writer of fd. It reports whether there was one.
func (l *Loop) RemoveWriter(fd int) bool { return l.removeHalf("RemoveWriter", fd, Write) }

func (l *Loop) addHalf(op string, fd int, in Interest, fn func()) error {
	l.core.Only(op)
	if fn == nil {
		panic("loop: " + op + " with a nil callback")
	}
	w, tok := l.watches.find(fd)
	switch {
	case w == nil:
		var err error
		if w, _, err = l.register(op, fd, in, Level); err != nil {
			return err
		}
	case w.fn != nil || w.in&in != 0:
		return watchError(op, fd, ErrExists)
	default:
		if err := l.k.Modify(fd, tok, w.in|in, Level); err != nil {
			return watchError(op, fd, err)
		}
		w.in |= in
	}
	if in == Read {
		w.reader = fn
	} else {
		w.writer = fn
	}
	return nil
}

func (l *Loop) removeHalf(op string, fd int, in Interest) bool {
	l.core.Only(op)
	w, tok := l.watches.find(fd)
	if w == nil || w.fn != nil || w.in&in == 0 {
		return false
	}
	if in == Read {
		w.reader = nil
	} else {
		w.writer = nil
	}
	if w.in &^= in; w.in == 0 {
		l.unregister(w, tok)
		return true
	}
	// A failure means that fd was closed too soon, and then nothing more can
	// happen to it.
	_ = l.k.Modify(fd, tok, w.in, Level)
	return true
}

func (l *Loop) register(op string, fd int, in Interest, mode Mode) (*watch, kernel.Token, error) {
	if fd < 0 || fd > math.MaxInt32 {
		return nil, 0, watchError(op, fd, syscall.EBADF)
	}
	if w, _ := l.watches.find(fd); w != nil {
		return nil, 0, watchError(op, fd, ErrExists)
	}
	w, tok := l.watches.take()
	if err := l.k.Add(fd, tok, in, mode); err != nil {
		l.watches.release(w, tok)
		return nil, 0, watchError(op, fd, err)
	}
	// The table by descriptor grows only now: a number that is not a descriptor
	// may be arbitrarily large.
	l.watches.bind(fd, tok)
	w.fd, w.in, w.mode = int32(fd), in, mode
	l.fds.Add(1)
	return w, tok, nil
}

func (l *Loop) unregister(w *watch, tok kernel.Token) {
	fd := int(w.fd)
	l.watches.byFD[fd] = 0
	l.watches.release(w, tok)
	l.fds.Add(-1)
	// A failure means that fd was closed already, which removed it from the kernel.
	_ = l.k.Delete(fd)
}

func watchError(op string, fd int, err error) error {
	switch err {
	case syscall.EPERM:
		err = ErrNotPollable
	case syscall.EEXIST:
		err = ErrExists
	case syscall.ENOENT:
		err = ErrNotWatched
	}
	return &OpError{Op: op, FD: fd, Err: err}
}

// dispatch runs the callbacks of the events of the last wait.
func (l *Loop) dispatch() {
	for l.eventAt < l.eventEnd {
		if ev := &l.events[l.eventAt]; ev.Ready != 0 {
			l.deliver(ev)
		} else {
			l.eventAt++
		}
	}
}

// deliver runs the next callback of an event. It clears the delivered bits of the event
// before the call, which may panic. It looks up the row each time, because any callback
// may cancel any watch.
func (l *Loop) deliver(ev *kernel.Event) {
	w := l.watches.at(ev.Token)
	if w == nil {
		ev.Ready = 0
		return
	}
	ready := ev.Ready & (Ready(w.in) | HangUp | Failed | Urgent)
	switch {
	case ready&(Readable|Writable) == 0:
		ev.Ready = 0
	case w.fn != nil:
		ev.Ready = 0
		l.stats.Events++
		w.fn(ready)
	case ready&Readable != 0:
		ev.Ready &^= Readable // the writer follows
		l.stats.Events++
		w.reader()
	default:
		ev.Ready = 0
		l.stats.Events++
		w.writer()
	}
}

const (
	watchPageBits = 7
	watchPageLen  = 1 << watchPageBits
)

// watches is a slab of rows in pages, so that rows do not move. A token is a row's index
// and generation.
type watches struct {
	pages []*[watchPageLen]watch
	free  []uint32
	byFD  []uint32 // descriptor to row index, one-based
}

func (s *watches) row(idx uint32) *watch {
	return &s.pages[idx>>watchPageBits][idx&(watchPageLen-1)]
}

// at returns the row of tok, or nil if it is gone.
func (s *watches) at(tok kernel.Token) *watch {
	idx := uint32(tok)
	if int(idx>>watchPageBits) >= len(s.pages) {
		return nil
	}
	w := s.row(idx)
	if w.gen != uint32(tok>>32) {
		return nil
	}
	return w
}

func (s *watches) find(fd int) (*watch, kernel.Token) {
	if fd < 0 || fd >= len(s.byFD) || s.byFD[fd] == 0 {
		return nil, 0
	}
	idx := s.byFD[fd] - 1
	w := s.row(idx)
	return w, kernel.Token(w.gen)<<32 | kernel.Token(idx)
}

func (s *watches) take() (*watch, kernel.Token) {
	if len(s.free) == 0 {
		base := uint32(len(s.pages)) << watchPageBits
		page := new([watchPageLen]watch)
		for i := range page {
			page[i].gen = 1 // so that the zero Watch identifies none
			s.free = append(s.free, base+watchPageLen-1-uint32(i))
		}
		s.pages = append(s.pages, page)
	}
	last := len(s.free) - 1
	idx := s.free[last]
	s.free = s.free[:last]
	w := s.row(idx)
	return w, kernel.Token(w.gen)<<32 | kernel.Token(idx)
}

func (s *watches) bind(fd int, tok kernel.Token) {
	if fd >= len(s.byFD) {
		s.byFD = append(s.byFD, make([]uint32, fd+1-len(s.byFD))...)
	}
	s.byFD[fd] = uint32(tok) + 1
}

// release frees a row. Every token of it becomes stale.
func (s *watches) release(w *watch, tok kernel.Token) {
	*w = watch{gen: w.gen + 1}
	s.free = append(s.free, uint32(tok))
}
