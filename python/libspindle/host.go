//go:build spindle_python

package main

/*
#include <stdlib.h>
#include "events.h"

static inline char *spindle_tasks(SpindleHost *h, bool first) { return h->tasks(h->loop, first); }
*/
import "C"

import (
	"encoding/json"
	"sync"
	"time"
	"unsafe"

	"github.com/spindleloop/spindle/internal/perloop"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/loop"
)

// host is a Python loop as the inspector sees it. Its state is read from C's memory without
// the GIL, so that it is known while Python is blocked.
type host struct {
	l *loop.Loop

	mu   sync.Mutex
	of   C.SpindleHost // guarded by mu
	open bool          // of is valid; guarded by mu
	// The callback that was running when HostState was called last, for loops that have no
	// watchdog; guarded by mu.
	seen   uint64
	seenAt time.Duration // on the loop's clock; 0 for never
	block  *block        // that the watchdog has reported and that has not ended; guarded by mu
}

// block is a callback that blocks the loop.
type block struct {
	pulse           uint64
	since           time.Duration // on the loop's clock
	task, at, stack string
	noted           bool
}

var _ probe.Tasks = (*host)(nil)

var hosts perloop.Values[host]

func (h *host) attach(l *loop.Loop, of *C.SpindleHost) {
	h.l, h.of, h.open = l, *of, true
	l.Internal().SetHost(h)
	hosts.Set(l, h)
}

func (h *host) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = false
}

func (h *host) isOpen() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open
}

// HostState reports what Python is doing. The words that it reads are written by the thread of
// the loop; a value that is a moment old does no harm.
func (h *host) HostState() (s probe.HostState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open || !bool(*h.of.running) {
		s.Idle = true
		return s
	}
	pulse := uint64(*h.of.pulse)
	s.Waiting = bool(*h.of.waiting)
	if b := h.block; b != nil && b.pulse == pulse {
		s.For, s.Task, s.At, s.Stack = h.l.Time()-b.since, b.task, b.at, b.stack
		return s
	}
	now := h.l.Time()
	if s.Waiting || h.seen != pulse || h.seenAt == 0 {
		h.seen, h.seenAt = pulse, now
	}
	s.For = now - h.seenAt
	return s
}

// SpindleBlocked notes what the watchdog has found: b blocks the loop, or if b is nil, what did
// so has ended. It is called by the thread of the watchdog.
//
//export SpindleBlocked
func SpindleBlocked(id C.int, b *C.SpindleBlock) (result C.int) {
	defer guard(&result)
	h := &at(id).host
	h.mu.Lock()
	defer h.mu.Unlock()
	if b == nil {
		if h.block != nil {
			h.note()
			h.l.Internal().EndBlocked(h.l.Time() - h.block.since)
			h.block = nil
		}
		return 0
	}
	took := time.Duration(float64(b.seconds) * float64(time.Second))
	if h.block == nil || h.block.pulse != uint64(b.pulse) {
		h.block = &block{pulse: uint64(b.pulse), since: h.l.Time() - took}
	}
	if b.stack != nil {
		h.block.task, h.block.at, h.block.stack = C.GoString(b.task), C.GoString(b.at), C.GoString(b.stack)
		h.note()
	}
	return 0
}

// note adds the block to the blocked turns of the loop. The caller holds mu.
func (h *host) note() {
	if b := h.block; !b.noted {
		b.noted = true
		core := h.l.Internal()
		core.NoteBlocked(probe.BlockedTurn{
			At: core.Kernel().Wall(), For: h.l.Time() - b.since, Task: b.task, Line: b.at, Stack: []byte(b.stack)})
	}
}

// walk is a walk over the tasks of Python. The methods of host and walk that follow are called
// on the thread of the loop.
type walk struct {
	h     *host
	begun bool
}

// pyTask is a task as Python describes it.
type pyTask struct {
	ID, Parent, On uint64 // Parent awaits it; it awaits On
	Name           string
	Function       string
	State          string
	WaitsFor       string  `json:"waits_for"`
	Waits          float64 // seconds
}

var states = map[string]probe.State{"fresh": probe.Fresh, "ready": probe.Ready, "running": probe.Running, "waiting": probe.Waiting}

// WalkTasks begins a walk. Python keeps the place of one walk; another one begins anew.
func (h *host) WalkTasks() probe.TaskWalk { return &walk{h: h} }

// Next visits further tasks. Python describes some at a time.
func (w *walk) Next(enough func() bool, visit func(*probe.Task)) (more bool) {
	for {
		var tasks []pyTask
		if !w.h.isOpen() {
			return false
		}
		text := C.spindle_tasks(&w.h.of, C.bool(!w.begun))
		w.begun = true
		if text == nil {
			return false
		}
		err := json.Unmarshal([]byte(C.GoString(text)), &tasks)
		C.free(unsafe.Pointer(text))
		if err != nil {
			return false
		}
		now := w.h.l.Time()
		for _, t := range tasks {
			visit(&probe.Task{
				ID: t.ID, Parent: t.Parent, WaitsOnTask: t.On, Name: t.Name, Function: t.Function,
				State: states[t.State], WaitsFor: t.WaitsFor, Deadline: probe.NoDeadline,
				WaitsSince: now - time.Duration(t.Waits*float64(time.Second)),
			})
		}
		if enough() {
			return true
		}
	}
}

// End does nothing: a walk of Python's holds nothing up.
func (w *walk) End() {}

// Python's tasks are not accounted, and have no scopes.

func (h *host) Attach(bool)                            {}
func (h *host) Pin()                                   {}
func (h *host) LabelAll(bool)                          {}
func (h *host) Ended() []probe.EndedTask               { return nil }
func (h *host) InScope(*probe.Task, uintptr) bool      { return false }
func (h *host) Cancel(*probe.Task, uintptr, error) int { return 0 }
