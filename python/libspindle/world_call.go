//go:build spindle_python

package main

/*
#include "world.h"
*/
import "C"

import (
	"context"
	"net/netip"
	"syscall"
	"unsafe"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/simguest"
	"github.com/spindleloop/spindle/internal/simkernel"
)

var background = context.Background()

// SpindleWorldCall is a call of a simulated process: of a socket, or to watch one. It
// returns a number that depends on the call, or a negative errno.
//
//export SpindleWorldCall
func SpindleWorldCall(id, process C.int, call *C.SpindleCall) (result C.int) {
	defer guard(&result)
	w := worldAt(id)
	if w.guest != nil {
		return w.guest.call(call)
	}
	p := w.processes[process]
	if call.task != nil {
		name := C.GoStringN(call.task, call.task_len)
		p.Running = func() string { return name }
	}
	n, err := perform(p, call)
	if w.core.Journal().Differs() {
		call.differs = 1
	}
	if err != nil {
		return errno(err)
	}
	return C.int(n)
}

func perform(p *simkernel.Process, call *C.SpindleCall) (n int, err error) {
	fd, a, b := int(call.fd), int(call.a), int(call.b)
	data := unsafe.Slice((*byte)(call.data), int(call.len))
	switch call.op {
	case C.SPINDLE_CALL_RECV:
		return p.Recv(fd, data)
	case C.SPINDLE_CALL_SEND:
		return p.Send(fd, data)
	case C.SPINDLE_CALL_WATCH:
		return 0, simguest.Watch(p, fd, kernel.Interest(a))
	case C.SPINDLE_CALL_SOCKET:
		return p.Socket(kernel.Family(a), kernel.Type(b))
	case C.SPINDLE_CALL_ACCEPT:
		if n, err = p.Accept(fd); err == nil {
			if from, e := p.PeerAddr(n); e == nil {
				store(&call.address, from)
			}
		}
		return n, err
	case C.SPINDLE_CALL_RECVFROM:
		n, from, _, err := p.RecvFrom(fd, data)
		store(&call.address, from)
		return n, err
	case C.SPINDLE_CALL_SENDTO:
		return p.SendTo(fd, data, load(&call.address))
	case C.SPINDLE_CALL_OPTION:
		return p.Option(fd, kernel.Option(a))
	case C.SPINDLE_CALL_LOCAL:
		return 0, storeOr(&call.address, fd, p.LocalAddr)
	case C.SPINDLE_CALL_PEER:
		return 0, storeOr(&call.address, fd, p.PeerAddr)
	case C.SPINDLE_CALL_BIND:
		return 0, p.Bind(fd, load(&call.address))
	case C.SPINDLE_CALL_LISTEN:
		return 0, p.Listen(fd, a)
	case C.SPINDLE_CALL_CONNECT:
		return 0, p.Connect(fd, load(&call.address))
	case C.SPINDLE_CALL_SHUTDOWN:
		return 0, p.Shutdown(fd, kernel.Side(a))
	case C.SPINDLE_CALL_SETOPTION:
		return 0, p.SetOption(fd, kernel.Option(a), b)
	case C.SPINDLE_CALL_CLOSE:
		return 0, p.CloseFD(fd)
	case C.SPINDLE_CALL_READY:
		ready, err := p.Readiness(fd, kernel.Interest(a))
		return int(ready), err
	}
	return 0, syscall.ENOSYS
}

func storeOr(into *C.SpindleAddress, fd int, of func(int) (kernel.Addr, error)) error {
	a, err := of(fd)
	if err == nil {
		store(into, a)
	}
	return err
}

// store writes an address for C.
func store(into *C.SpindleAddress, a kernel.Addr) {
	*into = C.SpindleAddress{port: C.int(a.Port())}
	switch a.Family() {
	case kernel.IPv4:
		into.family = 4
		ip := a.Addr().As4()
		copy(unsafe.Slice((*byte)(&into.ip[0]), 16), ip[:])
	case kernel.IPv6:
		into.family = 6
		ip := a.Addr().As16()
		copy(unsafe.Slice((*byte)(&into.ip[0]), 16), ip[:])
	case kernel.Unix:
		into.family = 1
		into.path_len = C.int(copy(unsafe.Slice((*byte)(unsafe.Pointer(&into.path[0])), len(into.path)), a.Path))
	}
}

// load reads an address of C's.
func load(from *C.SpindleAddress) kernel.Addr {
	ip := unsafe.Slice((*byte)(&from.ip[0]), 16)
	switch from.family {
	case 4:
		return kernel.Addr{AddrPort: netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip)), uint16(from.port))}
	case 6:
		return kernel.Addr{AddrPort: netip.AddrPortFrom(netip.AddrFrom16([16]byte(ip)), uint16(from.port))}
	case 1:
		return kernel.Addr{Path: C.GoStringN(&from.path[0], from.path_len)}
	}
	return kernel.Addr{}
}
