//go:build spindle_python

// Command libspindle is the half of the Python package that is written in Go. It is built
// as a C shared library. Its loops wait for descriptors; one call of SpindlePoll is one
// tick. Its functions return 0 or a count, a negative errno, or SPINDLE_PANIC.
//
// SpindleNew may be called by any thread. The other functions of a loop are called by one thread
// at a time: the one that polls, or one that holds the GIL while no thread polls.
package main

/*
#include "events.h"
#include <stdint.h>
*/
import "C"

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

func main() {}

// mostProcessors limits what Go uses of a large machine, unless $GOMAXPROCS says otherwise. Nearly all
// of its work is done in the threads of Python's loops; with more processors, a collection would start
// a thread for each.
const mostProcessors = 4

// SpindleStart prepares the library, before anything else is called. See logTo for *logWaits.
//
//export SpindleStart
func SpindleStart(logWaits *C.uint32_t) (result C.int) {
	defer guard(&result)
	logTo((*uint32)(logWaits))
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.SetDefaultGOMAXPROCS() // the runtime has found one, see src/oneprocessor.c
		runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), mostProcessors))
	}
	return 0
}

// pyLoop is a loop and what a tick collects.
type pyLoop struct {
	l       *loop.Loop
	poller  sharedPoller
	watches []watch // by descriptor
	events  []C.SpindleEvent
	n       int     // events collected in this tick
	server  *server // nil for most loops
	host    host
}

// watch is that of a descriptor. Its callback is kept for the next file with this number, so that a
// connection leaves no garbage.
type watch struct {
	loop.Watch
	ready func(loop.Ready)
}

// sharedPoller is the poller of a loop. C polls its descriptor too, see src/poll.c.
type sharedPoller interface {
	Share() int
	Unshare()
	Woken()
}

// loops is a table of *pyLoop, so that C holds an index and not a pointer into Go's
// memory. A reader needs no lock.
var (
	mu    sync.Mutex
	loops atomic.Pointer[[]*pyLoop]
)

func at(id C.int) *pyLoop { return (*loops.Load())[id] }

// SpindleNew makes a loop and returns its number.
//
//export SpindleNew
func SpindleNew(of *C.SpindleHost) (result C.int) {
	defer guard(&result)
	l, err := loop.New(loop.Options{Backend: "epoll", Name: "python"})
	if err != nil {
		return errno(err)
	}
	checkTokens()
	p := &pyLoop{l: l, poller: l.Internal().Kernel().Poller.(sharedPoller)}
	p.host.attach(l, of)
	mu.Lock()
	defer mu.Unlock()
	var table []*pyLoop
	if old := loops.Load(); old != nil {
		table = append(table, *old...)
	}
	id := len(table)
	for i, used := range table {
		if used == nil {
			id = i
		}
	}
	if id == len(table) {
		table = append(table, nil)
	}
	table[id] = p
	loops.Store(&table)
	return C.int(id)
}

// checkTokens panics unless C takes tokens apart as Go puts them together.
func checkTokens() {
	for _, row := range []uint32{0, 1, 1<<31 - 1} {
		if tok := kernel.NewToken(row, 1<<31+1); uint32(C.spindle_token_row(C.uint64_t(tok))) != tok.Row() {
			panic("libspindle: C and Go differ in the layout of tokens")
		}
	}
}

// SpindleClose closes a loop. Its number may be given to another one.
//
//export SpindleClose
func SpindleClose(id C.int) (result C.int) {
	defer guard(&result)
	p := at(id)
	p.host.close()
	err := p.l.Close()
	if p.server != nil {
		p.server.close()
	}
	mu.Lock()
	defer mu.Unlock()
	table := append([]*pyLoop(nil), *loops.Load()...)
	table[id] = nil
	loops.Store(&table)
	return errno(err)
}

// SpindleDescriptor returns the descriptor of the loop's epoll instance, which C polls from then
// on unless the loop has a server.
//
//export SpindleDescriptor
func SpindleDescriptor(id C.int) (result C.int) {
	defer guard(&result)
	return C.int(at(id).poller.Share())
}

// SpindleWatch makes interest, a set of SPINDLE_READ and SPINDLE_WRITE, what the loop
// waits for on fd. No interest ends the watch. It sets *token to the data of fd's epoll
// events.
//
//export SpindleWatch
func SpindleWatch(id, fd, interest C.int, token *C.uint64_t) (result C.int) {
	defer guard(&result)
	p := at(id)
	for int(fd) >= len(p.watches) {
		p.watches = append(p.watches, watch{})
	}
	w := &p.watches[fd]
	if w.ready == nil {
		w.ready = func(r loop.Ready) { p.collect(fd, r) }
	}
	var in loop.Ready
	if interest&C.SPINDLE_READ != 0 {
		in |= loop.Readable
	}
	if interest&C.SPINDLE_WRITE != 0 {
		in |= loop.Writable
	}
	if in != 0 && w.Watch != (loop.Watch{}) && w.Modify(in, loop.Level) == nil {
		return 0
	}
	// If Modify failed, the descriptor was closed, and its number may be another's.
	w.Cancel()
	w.Watch = loop.Watch{}
	if in == 0 {
		return 0
	}
	var err error
	w.Watch, err = p.l.Watch(int(fd), in, loop.Level, w.ready)
	if err == nil {
		tok := p.l.Internal().TokenOf(int(fd))
		*token = C.uint64_t(tok)
	}
	return errno(err)
}

// collect adds an event to those of the tick. If there is no space left, the watch, which
// is level-triggered, reports the descriptor again.
func (p *pyLoop) collect(fd C.int, r loop.Ready) {
	if p.n == len(p.events) {
		return
	}
	var ready C.int
	if r&(loop.Readable|loop.HangUp|loop.Failed) != 0 {
		ready |= C.SPINDLE_READ
	}
	if r&(loop.Writable|loop.Failed) != 0 {
		ready |= C.SPINDLE_WRITE
	}
	p.events[p.n] = C.SpindleEvent{fd: fd, ready: ready}
	p.n++
}

// SpindlePoll runs one turn of the loop. It waits at most timeout nanoseconds, without
// limit if that is negative, stores up to capacity events, and returns their number.
//
//export SpindlePoll
func SpindlePoll(id C.int, timeout C.longlong, events *C.SpindleEvent, capacity C.int) (result C.int) {
	defer guard(&result)
	p := at(id)
	p.events = unsafe.Slice(events, capacity)
	p.n = 0
	if p.server != nil && p.server.take() {
		timeout = 0 // a request waits for Python
	}
	p.poller.Woken() // C may have fetched the waker's event
	_, err := p.l.RunOnce(time.Duration(timeout))
	p.events = nil
	if err != nil {
		return errno(err)
	}
	return C.int(p.n)
}

// errno returns err as a negative number, 0 if it is nil.
func errno(err error) C.int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*loop.PanicError](err); ok { // of a callback of the loop
		return fail(e.Value, e.Stack)
	}
	var no syscall.Errno
	switch {
	case errors.As(err, &no):
		return -C.int(no)
	case errors.Is(err, errors.ErrUnsupported):
		return -C.int(syscall.EPERM)
	case errors.Is(err, fs.ErrExist):
		return -C.int(syscall.EEXIST)
	}
	return -C.int(syscall.EIO)
}
