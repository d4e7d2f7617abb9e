package loop

import (
	"math"
	"sync/atomic"
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

// watcher receives the readiness of a descriptor.
type watcher = interface {
	// Ready is called on the loop, with at least one direction of the interest.
	Ready(r kernel.Ready)
}

// watched is the row of a watched descriptor.
type watched struct {
	watcher   watcher
	fd        int32
	gen       uint32
	interest  kernel.Interest // 0 while the watch is suspended
	mode      Mode
	pending   Ready  // collected by Poll, not yet run
	pendingAt uint32 // where, in the entries that Poll collected
}

const (
	watchPageBits = 7
	watchPageLen  = 1 << watchPageBits
)

// watches is a slab of rows in pages, so that rows do not move. A token is a row's index
// and generation.
type watches struct {
	pages  []*[watchPageLen]watched
	free   []uint32
	byFD   []uint32     // descriptor to row index, one-based
	active atomic.Int32 // rows with an interest; written by the loop, read by any goroutine
}

// watch calls w whenever fd is ready in a direction of in, as often as mode says. It fails
// with fs.ErrExist, with errors.ErrUnsupported, or with an error of the kernel.
func (l *Loop) watch(fd int, in kernel.Interest, mode Mode, w watcher) (kernel.Token, error) {
	l.only("Watch")
	if fd < 0 || fd > math.MaxInt32 {
		return 0, syscall.EBADF
	}
	s := &l.watches
	if row, _ := s.find(fd); row != nil {
		return 0, errExists
	}
	row, tok := s.take()
	if err := l.k.Add(fd, tok, in, mode); err != nil {
		s.release(row, tok)
		return 0, watchError(err)
	}
	// The table by descriptor grows only now: a number that is not a descriptor
	// may be arbitrarily large.
	s.bind(fd, tok)
	row.watcher, row.fd, row.interest, row.mode = w, int32(fd), in, mode
	s.active.Add(1)
	return tok, nil
}

// modifyWatch changes the interest and the mode of a watch.
func (l *Loop) modifyWatch(row *watched, tok kernel.Token, in kernel.Interest, mode Mode) (err error) {
	k, fd := l.k, int(row.fd)
	switch {
	case in != 0 && row.interest != 0:
		err = k.Modify(fd, tok, in, mode)
	case in != 0:
		if err = k.Add(fd, tok, in, mode); err == nil {
			l.watches.active.Add(1)
		}
	case row.interest != 0:
		_ = k.Delete(fd) // a failure means that fd was closed already
		l.watches.active.Add(-1)
	}
	if err != nil {
		return watchError(err)
	}
	row.interest, row.mode = in, mode
	return nil
}

// unwatch ends the watch of fd, if there is one. Readiness that was already collected is
// not delivered.
func (l *Loop) unwatch(fd int) {
	row, tok := l.watches.find(fd)
	if row == nil {
		return
	}
	_ = l.modifyWatch(row, tok, 0, row.mode)
	l.watches.byFD[fd] = 0
	l.watches.release(row, tok)
}

func watchError(err error) error {
	switch err {
	case syscall.EPERM:
		return notPollable{}
	case syscall.EEXIST:
		return errExists
	case syscall.ENOENT:
		return errNotWatched
	}
	return err
}

// drop ends all watches when the loop is closed.
func (s *watches) drop() {
	s.pages, s.free, s.byFD = nil, nil, nil
	s.active.Store(0)
}

func (s *watches) row(idx uint32) *watched {
	return &s.pages[idx>>watchPageBits][idx&(watchPageLen-1)]
}

// at returns the row of tok, or nil if the watch has ended.
func (s *watches) at(tok kernel.Token) *watched {
	idx := tok.Row()
	if int(idx>>watchPageBits) >= len(s.pages) {
		return nil
	}
	w := s.row(idx)
	if w.gen != tok.Generation() {
		return nil
	}
	return w
}

// find returns the row and the token of fd, or nil if fd is not watched.
func (s *watches) find(fd int) (*watched, kernel.Token) {
	if fd < 0 || fd >= len(s.byFD) || s.byFD[fd] == 0 {
		return nil, 0
	}
	idx := s.byFD[fd] - 1
	w := s.row(idx)
	return w, kernel.NewToken(idx, w.gen)
}

func (s *watches) take() (*watched, kernel.Token) {
	if len(s.free) == 0 {
		base := uint32(len(s.pages)) << watchPageBits
		page := new([watchPageLen]watched)
		for i := range page {
			page[i].gen = 1 // so that the zero token is of no row
			s.free = append(s.free, base+watchPageLen-1-uint32(i))
		}
		s.pages = append(s.pages, page)
	}
	last := len(s.free) - 1
	idx := s.free[last]
	s.free = s.free[:last]
	w := s.row(idx)
	return w, kernel.NewToken(idx, w.gen)
}

func (s *watches) bind(fd int, tok kernel.Token) {
	if fd >= len(s.byFD) {
		s.byFD = append(s.byFD, make([]uint32, fd+1-len(s.byFD))...)
	}
	s.byFD[fd] = tok.Row() + 1
}

// release frees a row. Every token of it becomes stale.
func (s *watches) release(w *watched, tok kernel.Token) {
	*w = watched{gen: w.gen + 1}
	s.free = append(s.free, tok.Row())
}
