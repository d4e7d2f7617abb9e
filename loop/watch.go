package loop

import (
	"github.com/spindleloop/spindle/internal/kernel"
)

// Ready is what a descriptor is watched for, and what it is ready for.
type Ready = kernel.Ready

// What a descriptor can be ready for. It is watched for Readable, Writable or both; the others come
// unasked. HangUp comes with Readable: read to the end. Failed
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

// watchFunc is a function as a Watcher.
type watchFunc func(Ready)

func (fn watchFunc) Ready(r Ready) { fn(r) }

// halves is the Watcher of AddReader and AddWriter. The interest says which of them are
// set. deliver calls them itself.
type halves struct{ reader, writer func() }

func (h *halves) Ready(Ready) {}

// Watch calls fn on the loop whenever fd is ready for what in says, as often as mode
// says. The descriptor should be non-blocking. The caller closes it, after Cancel. Watch
// fails with an error that wraps EBADF if fd is not open, and errors.ErrUnsupported if it can never be
// waited for. The error matches fs.ErrExist if fd is watched already; if that is unexpected, a
// descriptor was closed before its watch was removed, and its number reused.
func (l *Loop) Watch(fd int, in Ready, mode Mode, fn func(Ready)) (Watch, error) {
	l.only("Watch")
	if fn == nil {
		panic("loop: Watch with a nil callback")
	}
	checkInterest(in, mode)
	tok, err := l.watch(fd, kernel.Interest(in), mode, watchFunc(fn))
	if err != nil {
		return Watch{}, opError("Watch", fd, err)
	}
	return Watch{l, tok}, nil
}

func checkInterest(in Ready, mode Mode) {
	if in == 0 || in&^(Readable|Writable) != 0 || mode > OneShot {
		panic("loop: watch with an unknown interest or mode")
	}
}

// Modify replaces what the descriptor is watched for, and the mode. It also arms a one-shot watch again.
func (w Watch) Modify(in Ready, mode Mode) error {
	row := w.row("Watch.Modify")
	if row == nil {
		return errNotWatched
	}
	checkInterest(in, mode)
	if err := w.l.modifyWatch(row, w.tok, kernel.Interest(in), mode); err != nil {
		return opError("Watch.Modify", int(row.fd), err)
	}
	return nil
}

// Cancel ends the watch. It reports whether there was one. Readiness that was already
// collected is not delivered.
func (w Watch) Cancel() bool {
	row := w.row("Watch.Cancel")
	if row == nil {
		return false
	}
	w.l.unwatch(int(row.fd))
	return true
}

func (w Watch) row(op string) *watched {
	if w.l == nil || w.l.isClosed() {
		return nil
	}
	w.l.only(op)
	return w.l.watches.at(w.tok)
}

// AddReader calls fn in every turn in which fd is readable. It fails like Watch. A
// descriptor has one reader. Call RemoveReader before closing fd.
func (l *Loop) AddReader(fd int, fn func()) error { return l.addHalf("AddReader", fd, kernel.Read, fn) }

// AddWriter calls fn in every turn in which fd is writable. It fails like Watch. A
// descriptor has one writer. Call RemoveWriter before closing fd.
func (l *Loop) AddWriter(fd int, fn func()) error {
	return l.addHalf("AddWriter", fd, kernel.Write, fn)
}

// RemoveReader removes the reader of fd. It reports whether there was one.
func (l *Loop) RemoveReader(fd int) bool { return l.removeHalf("RemoveReader", fd, kernel.Read) }

// RemoveWriter removes the writer of fd. It reports whether there was one.
func (l *Loop) RemoveWriter(fd int) bool { return l.removeHalf("RemoveWriter", fd, kernel.Write) }

func (l *Loop) addHalf(op string, fd int, in kernel.Interest, fn func()) error {
	l.only(op)
	if fn == nil {
		panic("loop: " + op + " with a nil callback")
	}
	var h *halves
	var err error
	if row, tok := l.watches.find(fd); row == nil {
		h = l.newHalves()
		_, err = l.watch(fd, in, Level, h)
	} else if h, _ = row.watcher.(*halves); h == nil || row.interest&in != 0 {
		err = errExists
	} else {
		err = l.modifyWatch(row, tok, row.interest|in, Level)
	}
	if err != nil {
		return opError(op, fd, err)
	}
	*h.half(in) = fn
	return nil
}

// newHalves returns an unused one, so that adding a reader again and again allocates
// nothing.
func (l *Loop) newHalves() *halves {
	last := len(l.halves) - 1
	if last < 0 {
		return &halves{}
	}
	h := l.halves[last]
	l.halves = l.halves[:last]
	return h
}

// half returns the callback of one direction.
func (h *halves) half(in kernel.Interest) *func() {
	if in == kernel.Read {
		return &h.reader
	}
	return &h.writer
}

func (l *Loop) removeHalf(op string, fd int, in kernel.Interest) bool {
	l.only(op)
	row, tok := l.watches.find(fd)
	if row == nil || row.interest&in == 0 {
		return false
	}
	h, ok := row.watcher.(*halves)
	if !ok {
		return false
	}
	*h.half(in) = nil
	if row.interest == in {
		l.unwatch(fd)
		l.halves = append(l.halves, h)
		return true
	}
	if err := l.modifyWatch(row, tok, row.interest&^in, Level); err != nil {
		row.interest &^= in // fd was closed too soon, and nothing more can happen to it
	}
	return true
}
