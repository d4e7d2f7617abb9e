//go:build spindle_python

package main

/*
#include "world.h"
#include <stdint.h>
*/
import "C"

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/simkernel"
)

// world is a simulated world with programs in Python. The thread that runs it
// holds the GIL, so that its fields need no lock.
type world struct {
	core      *simkernel.World
	hosts     []*simkernel.Host
	processes []*simkernel.Process
	calls     []int64 // tokens of calls that are due
	events    []kernel.Event
	guest     *guest // if another process runs the world; the other fields are not used then
}

// worlds is a table of *world, as loops is of loops.
var (
	worldsMu sync.Mutex
	worlds   atomic.Pointer[[]*world]
)

func worldAt(id C.int) *world { return (*worlds.Load())[id] }

// SpindleWorldNew makes a world and returns its number.
//
//export SpindleWorldNew
func SpindleWorldNew(seed C.uint64_t) (result C.int) {
	defer guard(&result)
	return addWorld(&world{core: simkernel.New(uint64(seed)), events: make([]kernel.Event, 64)})
}

// addWorld puts a world into the table and returns its number.
func addWorld(w *world) C.int {
	worldsMu.Lock()
	defer worldsMu.Unlock()
	var table []*world
	if old := worlds.Load(); old != nil {
		table = append(table, *old...)
	}
	id := 0
	for id < len(table) && table[id] != nil {
		id++
	}
	if id == len(table) {
		table = append(table, nil)
	}
	table[id] = w
	worlds.Store(&table)
	return C.int(id)
}

// SpindleWorldClose forgets a world. Its number may be given to another one.
//
//export SpindleWorldClose
func SpindleWorldClose(id C.int) (result C.int) {
	defer guard(&result)
	worldsMu.Lock()
	defer worldsMu.Unlock()
	table := append([]*world(nil), *worlds.Load()...)
	table[id] = nil
	worlds.Store(&table)
	return 0
}

// SpindleWorldNext ends the step of a process and drives the world to the next one. It
// returns the number of events, or SPINDLE_DEADLOCK or SPINDLE_STANDSTILL.
//
//export SpindleWorldNext
func SpindleWorldNext(id C.int, step *C.SpindleStep) (result C.int) {
	defer guard(&result)
	w := worldAt(id)
	if w.guest != nil {
		return w.guest.next(step)
	}
	if step.process >= 0 {
		w.processes[step.process].Park(time.Duration(step.wait_ns))
	}
	step.process, step.call = -1, -1
	p, n, err := w.core.Next(w.events, func() bool { return len(w.calls) > 0 })
	step.now_ns = C.longlong(w.core.Now())
	if w.core.Journal().Differs() {
		step.differs = 1
	}
	switch {
	case p != nil:
		step.process = C.int(p.ID() - 1)
		step.mono_ns = C.longlong(p.Mono())
		step.wall_ns = C.longlong(p.Wall().UnixNano())
	case len(w.calls) > 0:
		step.call = C.longlong(w.calls[0])
		w.calls = w.calls[1:]
	}
	switch {
	case errors.Is(err, simkernel.ErrDeadlock):
		return C.SPINDLE_DEADLOCK
	case errors.Is(err, simkernel.ErrStandstill):
		return C.SPINDLE_STANDSTILL
	case err != nil:
		return errno(err)
	}
	into := unsafe.Slice(step.events, step.capacity)
	for i, e := range w.events[:n] {
		into[i] = C.SpindleEvent{fd: C.int(e.Token), ready: directions(e.Ready)}
	}
	return C.int(n)
}

// directions returns the directions of a descriptor that is ready.
func directions(r kernel.Ready) (ready C.int) {
	if r&(kernel.Readable|kernel.HangUp|kernel.Failed) != 0 {
		ready |= C.SPINDLE_READ
	}
	if r&(kernel.Writable|kernel.Failed) != 0 {
		ready |= C.SPINDLE_WRITE
	}
	return ready
}

// SpindleWorldLookup resolves a name on the host of a process. It stores up to capacity
// addresses and returns their number.
//
//export SpindleWorldLookup
func SpindleWorldLookup(id, process C.int, name *C.char, length C.int, into *C.SpindleAddress, capacity C.int) (result C.int) {
	defer guard(&result)
	w, addresses := worldAt(id), unsafe.Slice(into, capacity)
	if w.guest != nil {
		return w.guest.lookup(C.GoStringN(name, length), addresses)
	}
	found, err := w.processes[process].LookupNetIP(background, "ip", C.GoStringN(name, length))
	if err != nil {
		return 0
	}
	n := min(len(found), len(addresses))
	for i, ip := range found[:n] {
		store(&addresses[i], kernel.Addr{AddrPort: netip.AddrPortFrom(ip, 0)})
	}
	return C.int(n)
}
