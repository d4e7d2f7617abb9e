package sim

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/loop"
)

// Host is a machine in a world, made by World.Host.
type Host struct {
	w    *World
	core *simkernel.Host
}

// Host adds a machine to the world. Other hosts reach it by its name or by its
// addresses. Without addrs it gets an address in 10.0.0.0/8. Host panics if the
// name or an address is taken, or if an address is not valid.
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

// Hosts returns all hosts, in the order in which they were added.
func (w *World) Hosts() []*Host { return slices.Clone(w.hosts) }

// Name returns the host's name.
func (h *Host) Name() string { return h.core.Name() }

// Go runs a program on the host, as spindle.Run does. World.Run waits until the
// program returns.
func (h *Host) Go(fn func(ctx context.Context) error) { h.start(fn, true) }

// Serve runs a program that World.Run does not wait for. World.Run cancels it when
// all programs that it waits for have returned.
func (h *Host) Serve(fn func(ctx context.Context) error) { h.start(fn, false) }

// start adds a program that runs fn in a task.
func (h *Host) start(fn func(ctx context.Context) error, waitedFor bool) {
	p := &program{host: h, waitedFor: waitedFor}
	p.main = func(o loop.Options) error {
		return spindle.Options{Loop: o}.Run(context.Background(), func(ctx context.Context) error {
			return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				p.cancel = func() { s.Cancel(errEnded) }
				if w := h.w; w.recorder.w != nil {
					w.recorder.core.Attach(spindle.LoopOf(ctx))
				}
				p.process.Describe = func() string { return describe(ctx) }
				p.process.Running = func() string { return running(ctx) }
				return fn(ctx)
			})
		})
	}
	p.add()
}

// running names the running task, "" for none.
func running(ctx context.Context) string {
	if t := spindle.Current(ctx); t != nil {
		return t.Name()
	}
	return ""
}

// describe names the running task. If no task runs, it names those that began to
// wait at the present time, with their lines.
func describe(ctx context.Context) string {
	if t := spindle.Current(ctx); t != nil {
		return t.Name()
	}
	var waiting []string
	for _, t := range spindle.TreeOf(ctx) {
		if t.WaitsFor != "" && t.For == 0 {
			line, _, _ := strings.Cut(cmp.Or(t.At, t.Function), " (")
			waiting = append(waiting, fmt.Sprintf("%s (in %s at %s)", t.Name, t.WaitsFor, line))
		}
	}
	return strings.Join(waiting, ", ")
}

// Exec runs a program that makes its own loop with the given options, instead of a
// task as Go and Serve do. World.Run waits until the program returns.
func (h *Host) Exec(fn func(o loop.Options) error) {
	p := &program{host: h, waitedFor: true, main: fn}
	p.add()
}

// Crash ends the host's programs where they are and resets its connections. The host
// does not answer until Restart. Deferred calls of the programs still run, because
// Go cannot skip them, but they cannot reach the world.
func (h *Host) Crash() {
	for _, p := range h.w.programs {
		if p.host == h && p.state == programRuns {
			p.state = programCrashed
		}
	}
	h.core.Crash()
}

// Restart boots the host and starts the programs that the crash ended from the
// beginning. If the host is up, Restart crashes it first. World.Run waits for a
// crashed program of Go as long as anything can still happen.
func (h *Host) Restart() {
	h.Crash()
	h.core.Boot()
	for _, p := range h.w.programs {
		if p.host == h && p.state == programCrashed {
			p.start()
		}
	}
}

// Up reports whether the host runs: it has not crashed, or was restarted since.
func (h *Host) Up() bool { return h.core.Up() }

// Pause keeps the host's programs from running until Resume. The host still receives
// data meanwhile, up to the size of its buffers. While the world closes, Pause does
// nothing, so that programs can clean up.
func (h *Host) Pause() {
	if !h.w.closing {
		h.core.Pause()
	}
}

// Paused reports whether the host is paused.
func (h *Host) Paused() bool { return h.core.Paused() }

// Resume ends a pause.
func (h *Host) Resume() { h.core.Resume() }

// SetClock makes the host's clock run ppm millionths too fast (too slow if negative)
// from now on, and shifts its time of day by off.
func (h *Host) SetClock(off time.Duration, ppm int) { h.core.SetClock(off, ppm) }

// FailCall makes the n-th call of the given name from now on, counting from 1, fail
// with err, once: for example "socket" or "accept" with EMFILE. The names are socket,
// bind, listen, accept, connect, recv, send, sendv, recvfrom, sendto, shutdown,
// setoption and add.
func (h *Host) FailCall(name string, n int, err syscall.Errno) { h.core.FailCall(name, n, err) }

// Note adds a line to the trace.
func (h *Host) Note(format string, args ...any) { h.w.core.Note(h.core, fmt.Sprintf(format, args...)) }
