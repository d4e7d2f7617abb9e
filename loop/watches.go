package loopcore

import (
	"errors"
	"math"
	"sync/atomic"
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

// Errors of watches. Package loop documents them.
var (
	ErrExists      = errors.New("loop: descriptor is watched already (or was closed before its watch was removed)")
	ErrNotWatched  = errors.New("loop: descriptor is not watched")
	ErrNotPollable = errors.New("loop: descriptor cannot be polled (a regular file or directory? use Offload)")
)

// Watcher receives the readiness of a descriptor.
type Watcher interface {
	// Ready is called on the loop, with at least one direction of the interest.
	Ready(r kernel.Ready)
}

// Watch is the row of a watched descriptor. Only package loop uses its fields.
type Watch struct {
	Watcher   Watcher
	FD        int32
	gen       uint32
	Interest  kernel.Interest // 0 while the watch is suspended
	Mode      kernel.Mode
	Pending   kernel.Ready // collected by Poll, not yet run
	PendingAt uint32       // where, in the entries that Poll collected
}

const (
	watchPageBits = 7
	watchPageLen  = 1 << watchPageBits
)

// watches is a slab of rows in pages, so that rows do not move. A token is a row's index
// and generation.
type watches struct {
	pages  []*[watchPageLen]Watch
	free   []uint32
	byFD   []uint32     // descriptor to row index, one-based
	active atomic.Int32 // rows with an interest; written by the loop, read by any goroutine
}

// Watch calls w whenever fd is ready in a direction of in, as often as mode says. It fails
// with ErrExists, with ErrNotPollable, or with an error of the kernel.
func (c *Loop) Watch(fd int, in kernel.Interest, mode kernel.Mode, w Watcher) (kernel.Token, error) {
	c.Only("Watch")
	if fd < 0 || fd > math.MaxInt32 {
		return 0, syscall.EBADF
	}
	s := &c.watches
	if row, _ := s.find(fd); row != nil {
		return 0, ErrExists
	}
	row, tok := s.take()
	if err := c.config.Kernel.Add(fd, tok, in, mode); err != nil {
		s.release(row, tok)
		return 0, watchError(err)
	}
	// The table by descriptor grows only now: a number that is not a descriptor
	// may be arbitrarily large.
	s.bind(fd, tok)
	row.Watcher, row.FD, row.Interest, row.Mode = w, int32(fd), in, mode
	s.active.Add(1)
	return tok, nil
}

// SetInterest changes the directions in which fd is watched. With none, the watch is
// suspended: it keeps its row, and EachWatcher still finds it.
func (c *Loop) SetInterest(fd int, in kernel.Interest) error {
	row, tok := c.WatchOf(fd)
	if row == nil {
		return ErrNotWatched
	}
	return c.ModifyWatch(row, tok, in, row.Mode)
}

// ModifyWatch changes the interest and the mode of a watch.
func (c *Loop) ModifyWatch(row *Watch, tok kernel.Token, in kernel.Interest, mode kernel.Mode) (err error) {
	k, fd := c.config.Kernel, int(row.FD)
	switch {
	case in != 0 && row.Interest != 0:
		err = k.Modify(fd, tok, in, mode)
	case in != 0:
		if err = k.Add(fd, tok, in, mode); err == nil {
			c.watches.active.Add(1)
		}
	case row.Interest != 0:
		_ = k.Delete(fd) // a failure means that fd was closed already
		c.watches.active.Add(-1)
	}
	if err != nil {
		return watchError(err)
	}
	row.Interest, row.Mode = in, mode
	return nil
}

// Unwatch ends the watch of fd, if there is one. Readiness that was already collected is
// not delivered.
func (c *Loop) Unwatch(fd int) {
	row, tok := c.WatchOf(fd)
	if row == nil {
		return
	}
	_ = c.ModifyWatch(row, tok, 0, row.Mode)
	c.watches.byFD[fd] = 0
	c.watches.release(row, tok)
}

func watchError(err error) error {
	switch err {
	case syscall.EPERM:
		return ErrNotPollable
	case syscall.EEXIST:
		return ErrExists
	case syscall.ENOENT:
		return ErrNotWatched
	}
	return err
}

// WatchOf returns the row and the token of fd, or nil if fd is not watched.
func (c *Loop) WatchOf(fd int) (*Watch, kernel.Token) { return c.watches.find(fd) }

// WatchAt returns the row of tok, or nil if the watch has ended.
func (c *Loop) WatchAt(tok kernel.Token) *Watch { return c.watches.at(tok) }

// EachWatcher calls fn with every Watcher, about newest first. fn may end any watch.
func (c *Loop) EachWatcher(fn func(Watcher)) {
	s := &c.watches
	for i := len(s.pages)<<watchPageBits - 1; i >= 0; i-- {
		if w := s.row(uint32(i)).Watcher; w != nil {
			fn(w)
		}
	}
}

// Watched returns the number of descriptors that are watched. Any goroutine may call it.
func (c *Loop) Watched() int { return int(c.watches.active.Load()) }

// drop ends all watches when the loop is closed.
func (s *watches) drop() {
	s.pages, s.free, s.byFD = nil, nil, nil
	s.active.Store(0)
}

func (s *watches) row(idx uint32) *Watch {
	return &s.pages[idx>>watchPageBits][idx&(watchPageLen-1)]
}

func (s *watches) at(tok kernel.Token) *Watch {
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

func (s *watches) find(fd int) (*Watch, kernel.Token) {
	if fd < 0 || fd >= len(s.byFD) || s.byFD[fd] == 0 {
		return nil, 0
	}
	idx := s.byFD[fd] - 1
	w := s.row(idx)
	return w, kernel.Token(w.gen)<<32 | kernel.Token(idx)
}

func (s *watches) take() (*Watch, kernel.Token) {
	if len(s.free) == 0 {
		base := uint32(len(s.pages)) << watchPageBits
		page := new([watchPageLen]Watch)
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
	return w, kernel.Token(w.gen)<<32 | kernel.Token(idx)
}

func (s *watches) bind(fd int, tok kernel.Token) {
	if fd >= len(s.byFD) {
		s.byFD = append(s.byFD, make([]uint32, fd+1-len(s.byFD))...)
	}
	s.byFD[fd] = uint32(tok) + 1
}

// release frees a row. Every token of it becomes stale.
func (s *watches) release(w *Watch, tok kernel.Token) {
	*w = Watch{gen: w.gen + 1}
	s.free = append(s.free, uint32(tok))
}
