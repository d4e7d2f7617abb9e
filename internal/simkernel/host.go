package simkernel

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

// Host is a machine: addresses, ports, names of Unix sockets and a clock. Its processes
// run while it is up and not paused.
type Host struct {
	w      *World
	id     int32
	name   string
	addrs  []netip.Addr
	down   bool
	paused bool

	ports    map[portKey][]*socket
	nextPort map[kernel.Type]uint16
	unix     map[string]socketObject
	faults   []callFault
	clock    atomic.Pointer[clock]
}

// AddHost makes a host. Without addresses it gets an address in 10.0.0.0/8. It panics if
// the name or an address is taken.
func (w *World) AddHost(name string, addrs ...netip.Addr) *Host {
	if name == "" || name == "localhost" || w.names[name] != nil {
		panic(fmt.Sprintf("sim: host name %q is reserved or taken", name))
	}
	h := &Host{
		w:        w,
		id:       int32(len(w.hosts)),
		name:     name,
		addrs:    addrs,
		ports:    make(map[portKey][]*socket),
		nextPort: make(map[kernel.Type]uint16),
		unix:     make(map[string]socketObject),
	}
	if len(addrs) == 0 {
		n := h.id + 1
		h.addrs = []netip.Addr{netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})}
	}
	for _, ip := range h.addrs {
		if !ip.IsValid() || ip.IsUnspecified() || ip.IsLoopback() || w.addrs[ip.Unmap()] != nil {
			panic(fmt.Sprintf("sim: host %q: address %v is not usable or taken", name, ip))
		}
		w.addrs[ip.Unmap()] = h
	}
	h.clock.Store(&clock{})
	w.hosts = append(w.hosts, h)
	w.names[name] = h
	return h
}

// Name returns the host's name.
func (h *Host) Name() string { return h.name }

// Addrs returns the host's addresses.
func (h *Host) Addrs() []netip.Addr { return slices.Clone(h.addrs) }

// Up reports whether the host runs: it has not crashed, or was booted since.
func (h *Host) Up() bool { return !h.down }

// Crash kills every process of the host and resets its connections. Until Boot the host
// does not answer.
func (h *Host) Crash() {
	if h.down {
		return
	}
	h.w.trace.add(h.w, traceEvent{kind: Crashed, from: h.id, to: h.id})
	h.Resume()
	for _, p := range slices.Clone(h.w.processes) {
		if p.host == h {
			p.Kill(ErrCrashed)
		}
	}
	h.down = true
	h.faults = nil // they belong to the processes
	h.unix = make(map[string]socketObject)
}

// Boot makes a crashed host run again, without processes.
func (h *Host) Boot() {
	if h.down {
		h.down = false
		h.w.trace.add(h.w, traceEvent{kind: Booted, from: h.id, to: h.id})
	}
}

// Pause keeps the host's processes from running until Resume. The host still receives
// data, as for a real process that was stopped.
func (h *Host) Pause() {
	if !h.paused {
		h.paused = true
		h.w.trace.add(h.w, traceEvent{kind: Paused, from: h.id, to: h.id})
	}
}

// Paused reports whether the host is paused.
func (h *Host) Paused() bool { return h.paused }

// Resume ends a pause.
func (h *Host) Resume() {
	if !h.paused {
		return
	}
	h.paused = false
	h.w.trace.add(h.w, traceEvent{kind: Resumed, from: h.id, to: h.id})
	for _, p := range h.w.processes {
		if p.host == h && p.heldByPause {
			p.heldByPause = false
			h.w.runnable = append(h.w.runnable, p)
		}
	}
}

// clock converts the world's time to that of a host, which is faster or slower by some
// millionths from a certain time on. The time of day has an additional offset.
type clock struct {
	world, local time.Duration // the same time, by both clocks
	ppm          int64
	off          time.Duration
}

func (c *clock) mono(now time.Duration) time.Duration {
	d := now - c.world
	return c.local + d + d/1e6*time.Duration(c.ppm) + d%1e6*time.Duration(c.ppm)/1e6
}

// until returns the first time of the world at which the clock shows local.
func (c *clock) until(now, local time.Duration) time.Duration {
	left := local - c.mono(now)
	if c.ppm == 0 || left <= 0 {
		return now + max(left, 0)
	}
	at := now + left/(1e6+time.Duration(c.ppm))*1e6 + left%(1e6+time.Duration(c.ppm))*1e6/(1e6+time.Duration(c.ppm))
	for c.mono(at) < local {
		at++
	}
	return at
}

// SetClock makes the host's clock run ppm millionths too fast from now on, and shifts its
// time of day by off.
func (h *Host) SetClock(off time.Duration, ppm int) {
	if ppm <= -1e6 || ppm > 1e6 {
		panic("sim: a clock cannot run backwards, nor more than twice as fast")
	}
	now := h.w.Now()
	h.clock.Store(&clock{world: now, local: h.clock.Load().mono(now), ppm: int64(ppm), off: off})
	h.w.trace.add(h.w, traceEvent{kind: ClockSet, from: h.id, to: h.id, note: fmt.Sprintf("%v off, %d ppm fast", off, ppm)})
}

// callFault makes a call fail, after left-1 more calls of the same name.
type callFault struct {
	call string
	left int
	err  syscall.Errno
}

// FailCall makes the n-th call of the given name from now on, counting from 1, fail with
// err, once. The names are those of kernel.Sockets, in lower case, and "add".
func (h *Host) FailCall(call string, n int, err syscall.Errno) {
	if n < 1 || !slices.Contains(failableCalls, strings.ToLower(call)) {
		panic(fmt.Sprintf("sim: FailCall with the call %q and the number %d; there are %s, counted from 1", call, n, strings.Join(failableCalls, ", ")))
	}
	h.faults = append(h.faults, callFault{strings.ToLower(call), n, err})
}

// failableCalls are the names that FailCall accepts.
var failableCalls = []string{
	"add", "socket", "bind", "listen", "accept", "connect", "recv", "send", "sendv", "recvfrom", "sendto", "shutdown",
	"localaddr", "peeraddr", "setoption", "option",
}

// fault returns the error that FailCall has set for this call, or nil.
func (h *Host) fault(call string) error {
	if len(h.faults) == 0 {
		return nil
	}
	for i := range h.faults {
		f := &h.faults[i]
		if f.call != call {
			continue
		}
		if f.left--; f.left > 0 {
			continue
		}
		err := f.err
		h.faults = slices.Delete(h.faults, i, i+1)
		h.w.trace.add(h.w, traceEvent{kind: CallFailed, from: h.id, to: h.id, note: call + ": " + err.Error()})
		return err
	}
	return nil
}

// lookup resolves a name on host h.
func (h *Host) lookup(network, name string) ([]netip.Addr, error) {
	var all []netip.Addr
	switch ip, err := netip.ParseAddr(name); {
	case err == nil:
		all = []netip.Addr{ip}
	case name == "localhost":
		all = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	case h.w.names[name] != nil:
		all = h.w.names[name].Addrs()
	}
	all = slices.DeleteFunc(all, func(ip netip.Addr) bool {
		return network == "ip4" && !ip.Unmap().Is4() || network == "ip6" && ip.Unmap().Is4()
	})
	if len(all) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return all, nil
}
