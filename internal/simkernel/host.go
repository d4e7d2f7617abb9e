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

// Host is a machine: addresses, ports, names of Unix sockets and a clock. Its
// processes run while it is up and not paused.
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

// AddHost makes a host. Without addresses it gets one of its own. It panics if
// the name or an address is taken: that is a mistake in a test.
func (w *World) AddHost(name string, addrs ...netip.Addr) *Host {
	if name == "" || name == "localhost" || w.names[name] != nil {
		panic(fmt.Sprintf("sim: there cannot be a host %q (or not another one)", name))
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
			panic(fmt.Sprintf("sim: host %q cannot have the address %v (or another host has it)", name, ip))
		}
		w.addrs[ip.Unmap()] = h
	}
	h.clock.Store(&clock{})
	w.hosts = append(w.hosts, h)
	w.names[name] = h
	return h
}

// Name is the host's name, by which others find it.
func (h *Host) Name() string { return h.name }

// Addrs are the host's addresses.
func (h *Host) Addrs() []netip.Addr { return slices.Clone(h.addrs) }

// Up tells whether the host has not crashed.
func (h *Host) Up() bool { return !h.down }

// Crash ends every process of the host where it stands and resets all its
// connections. Until Boot the host does not answer.
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
	h.faults = nil // they were those of its processes
	h.unix = make(map[string]socketObject)
}

// Boot brings a crashed host back, without processes.
func (h *Host) Boot() {
	if h.down {
		h.down = false
		h.w.trace.add(h.w, traceEvent{kind: Booted, from: h.id, to: h.id})
	}
}

// Pause keeps the host's processes from running until Resume. Its network goes
// on to take in what comes, as for a process that was stopped.
func (h *Host) Pause() {
	if !h.paused {
		h.paused = true
		h.w.trace.add(h.w, traceEvent{kind: Paused, from: h.id, to: h.id})
	}
}

// Resume ends a pause.
func (h *Host) Resume() {
	if !h.paused {
		return
	}
	h.paused = false
	h.w.trace.add(h.w, traceEvent{kind: Resumed, from: h.id, to: h.id})
	for _, p := range h.w.processes {
		if p.host == h && p.held {
			p.held = false
			h.w.runnable = append(h.w.runnable, p)
		}
	}
}

// clock is how a host sees the world's time: from a moment on it runs faster or
// slower by some millionths. The time of day is off by some more.
type clock struct {
	world, local time.Duration // the same moment
	ppm          int64
	off          time.Duration
}

func (c *clock) mono(now time.Duration) time.Duration {
	d := now - c.world
	return c.local + d + d/1e6*time.Duration(c.ppm) + d%1e6*time.Duration(c.ppm)/1e6
}

// until is the first moment of the world's time at which the clock shows local.
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

// SetClock has the host's clock run ppm millionths too fast from now on, and its
// time of day be off by off.
func (h *Host) SetClock(off time.Duration, ppm int) {
	if ppm <= -1e6 || ppm > 1e6 {
		panic("sim: a clock cannot run backwards, nor more than twice as fast")
	}
	now := h.w.Now()
	h.clock.Store(&clock{world: now, local: h.clock.Load().mono(now), ppm: int64(ppm), off: off})
	h.w.trace.add(h.w, traceEvent{kind: ClockSet, from: h.id, to: h.id, note: fmt.Sprintf("%v off, %d ppm fast", off, ppm)})
}

// callFault makes a call fail: the left-th of its name from now.
type callFault struct {
	call string
	left int
	err  syscall.Errno
}

// FailCall has the n-th call of a name from now on, counting from 1, fail with
// err, once. The names are those of kernel.Sockets, in lower case, and "add".
func (h *Host) FailCall(call string, n int, err syscall.Errno) {
	if n < 1 || !slices.Contains(failing, strings.ToLower(call)) {
		panic(fmt.Sprintf("sim: FailCall with the call %q and the number %d; there are %s, counted from 1", call, n, strings.Join(failing, ", ")))
	}
	h.faults = append(h.faults, callFault{strings.ToLower(call), n, err})
}

// failing are the calls that can be told to fail.
var failing = []string{
	"add", "socket", "bind", "listen", "accept", "connect", "recv", "send", "sendv", "recvfrom", "sendto", "shutdown",
	"localaddr", "peeraddr", "setoption", "option",
}

// fault tells whether this call is to fail.
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

// lookup resolves a name as host h sees it.
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
