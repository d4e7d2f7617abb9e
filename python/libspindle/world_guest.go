//go:build spindle_python

package main

/*
#include "world.h"
*/
import "C"

import (
	"net/netip"
	"os"
	"time"
	"unsafe"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/simguest"
)

// guest is the end of a world that another process runs: package sim of Go. It has one host, with
// one process.
type guest struct {
	pipe *simguest.Pipe
	now  int64
	wait int64 // how long the process waits, if it has parked
}

// SpindleWorldJoin joins a world that another process runs, over two descriptors. It returns
// the world's number.
//
//export SpindleWorldJoin
func SpindleWorldJoin(in, out C.int) (result C.int) {
	defer guard(&result)
	pipe := simguest.NewPipe(os.NewFile(uintptr(in), "from the world"), os.NewFile(uintptr(out), "to the world"))
	return addWorld(&world{guest: &guest{pipe: pipe}})
}

// ask sends a call. If the world has gone, the program is of no use any more.
func (g *guest) ask(c simguest.Call) simguest.Answer {
	a, err := g.pipe.Ask(c)
	if err != nil {
		os.Exit(1)
	}
	return a
}

// next ends a step and waits for the next one.
func (g *guest) next(step *C.SpindleStep) C.int {
	wait := g.wait
	if step.process >= 0 {
		wait = int64(step.wait_ns)
	}
	a := g.ask(simguest.Call{Op: simguest.Park, Wait: time.Duration(wait)})
	g.now, g.wait = a.Now, 0
	step.process, step.call = 0, -1
	step.now_ns, step.mono_ns, step.wall_ns = C.longlong(a.Now), C.longlong(a.Mono), C.longlong(a.Wall)
	into := unsafe.Slice(step.events, step.capacity)
	for i, e := range a.Events {
		into[i] = C.SpindleEvent{fd: C.int(e.Token), ready: directions(e.Ready)}
	}
	return C.int(len(a.Events))
}

// call makes a call of a socket.
func (g *guest) call(call *C.SpindleCall) C.int {
	c := simguest.Call{Op: int(call.op), FD: int(call.fd), A: int(call.a), B: int(call.b), Address: simguest.Of(load(&call.address))}
	data := unsafe.Slice((*byte)(call.data), int(call.len))
	switch call.op {
	case C.SPINDLE_CALL_RECV, C.SPINDLE_CALL_RECVFROM:
		c.Size = len(data)
	default:
		c.Data = data
	}
	a := g.ask(c)
	copy(data, a.Data)
	store(&call.address, a.Address.Kernel())
	return C.int(a.N)
}

// lookup resolves a name.
func (g *guest) lookup(name string, into []C.SpindleAddress) C.int {
	found := g.ask(simguest.Call{Op: simguest.Lookup, Text: name}).Found
	n := min(len(found), len(into))
	for i, ip := range found[:n] {
		store(&into[i], kernel.Addr{AddrPort: netip.AddrPortFrom(ip, 0)})
	}
	return C.int(n)
}

// control is SpindleWorldControl. What changes the world itself is for the process that runs it.
func (g *guest) control(c *C.SpindleControl, answer *C.longlong) C.int {
	switch c.op {
	case C.SPINDLE_WORLD_PARK:
		g.wait = int64(c.x)
	case C.SPINDLE_WORLD_WAKE:
		g.wait = 0
	case C.SPINDLE_WORLD_NOW:
		*answer = C.longlong(g.now)
	case C.SPINDLE_WORLD_NOTE:
		g.ask(simguest.Call{Op: simguest.Note, Text: C.GoStringN(c.text, c.len)})
	case C.SPINDLE_WORLD_RETURN:
		g.ask(simguest.Call{Op: simguest.Exit, Text: C.GoStringN(c.text, c.len)})
	}
	return 0
}
