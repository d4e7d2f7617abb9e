package sim

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/simnet"
	"github.com/spindleloop/spindle/loop"
)

// Host is a machine of a world. World.Host makes one.
type Host struct {
	w    *World
	core *simnet.Host
}

// Host makes a machine. Others reach it by its name, or by its addresses; if none
// are given it has one of its own in 10.0.0.0/8. A name or an address that is
// taken, or is no address, panics.
func (w *World) Host(name string, addrs ...string) *Host {
	ips := make([]netip.Addr, len(addrs))
	for i, a := range addrs {
		ip, err := netip.ParseAddr(a)
		if err != nil {
			panic(fmt.Sprintf("sim: host %q: %v", name, err))
		}
		ips[i] = ip
	}
	h := &Host{w, w.core.AddHost(name, ips...)}
	w.hosts = append(w.hosts, h)
	return h
}

// Find is the host of a name, nil if there is none.
func (w *World) Find(name string) *Host {
	for _, h := range w.hosts {
		if h.Name() == name {
			return h
		}
	}
	return nil
}

// Hosts are all hosts, in the order in which they were made.
func (w *World) Hosts() []*Host { return slices.Clone(w.hosts) }

// Name is the host's name.
func (h *Host) Name() string { return h.core.Name() }

// Addrs are the host's addresses.
func (h *Host) Addrs() []netip.Addr { return h.core.Addrs() }

// Go runs a program on the host, as spindle.Run does. World.Run lasts until it has
// ended.
func (h *Host) Go(fn func(ctx context.Context) error) { h.tasks(fn, true) }

// Serve runs a program that World.Run does not wait for: when nobody is left who
// is waited for, it is cancelled.
func (h *Host) Serve(fn func(ctx context.Context) error) { h.tasks(fn, false) }

func (h *Host) tasks(fn func(ctx context.Context) error, waitedFor bool) {
	p := &program{host: h, waitedFor: waitedFor}
	p.main = func(o loop.Options) error {
		return spindle.RunWith(context.Background(), spindle.Options{Loop: o}, func(ctx context.Context) error {
			return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				p.cancel = func() { s.Cancel(errEnded) }
				p.process.Describe = func() string { return describe(ctx) }
				return fn(ctx)
			})
		})
	}
	p.add()
}

// describe names the task that runs, or else those that have begun to wait at this
// moment.
func describe(ctx context.Context) string {
	if t := spindle.Current(ctx); t != nil {
		return t.Name()
	}
	var waiting []string
	for _, t := range spindle.TasksOf(ctx) {
		if t.WaitsFor != "" && t.For == 0 {
			waiting = append(waiting, fmt.Sprintf("%s (%s, for %s)", t.Name, t.Function, t.WaitsFor))
		}
	}
	return strings.Join(waiting, ", ")
}

// Exec runs a program that makes a loop itself, with the options it is given, in
// place of the task that Go and Serve start. World.Run lasts until it has ended.
func (h *Host) Exec(fn func(o loop.Options) error) {
	p := &program{host: h, waitedFor: true, main: fn}
	p.add()
}

// Crash ends the host's programs where they stand and resets its connections.
// Until Restart nobody answers there. Deferred calls of the programs still run,
// because Go cannot do without, but cut off from the world.
func (h *Host) Crash() {
	for _, p := range h.w.programs {
		if p.host == h && p.state == programRuns {
			p.state = programCrashed
		}
	}
	h.core.Crash()
}

// Restart brings a host back after a crash, or crashes it first: programs that the
// crash has ended begin anew. World.Run waits for those of Go that have crashed
// for as long as anything can still happen.
func (h *Host) Restart() {
	h.Crash()
	h.core.Boot()
	for _, p := range h.w.programs {
		if p.host == h && p.state == programCrashed {
			p.start()
		}
	}
}

// Up tells whether the host has not crashed, or was restarted.
func (h *Host) Up() bool { return h.core.Up() }

// Pause keeps the host's programs from running until Resume. Its network takes in
// what comes meanwhile, as far as there is room.
func (h *Host) Pause() { h.core.Pause() }

// Resume ends a pause.
func (h *Host) Resume() { h.core.Resume() }

// SetClock has the host's clock run ppm millionths too fast (negative: too slow)
// from now on, and its time of day be off by off.
func (h *Host) SetClock(off time.Duration, ppm int) { h.core.SetClock(off, ppm) }

// FailCall has the n-th call of a name from now on, counting from 1, fail with err,
// once: "socket" or "accept" with EMFILE, for example. The names are those of the
// system: socket, bind, listen, accept, connect, recv, send, sendv, recvfrom,
// sendto, shutdown, setoption, add.
func (h *Host) FailCall(name string, n int, err syscall.Errno) { h.core.FailCall(name, n, err) }

// Note puts a line into the trace.
func (h *Host) Note(format string, args ...any) { h.w.core.Note(h.core, fmt.Sprintf(format, args...)) }
