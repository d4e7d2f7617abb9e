package relaysim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/sim"
)

// Calls is a world of web hosts that call workers over a bus host. Every second seed has
// faults: messages are lost, hosts are partitioned, crash and pause, and clocks are wrong.
// In the others, messages take whole milliseconds, so that replies, deadlines and
// cancellations meet at the same time.
//
// In every run each call ends once, within its deadline; no call gets the reply of another;
// no waiter is left; no request is handled twice; and the context of every handler ends:
// with the cancellation of its call if nothing is lost, and otherwise with the deadline.
func Calls(w *sim.World) {
	a := &account{w: w, each: w.Amount("calls", 12), quiet: w.Seed()%2 == 0, running: map[string]*handling{},
		handled: map[string]int{}, canceled: map[string]time.Duration{}}
	w.Host("bus").Serve(Host)
	for i := range w.Amount("workers", 2) {
		h := w.Host(fmt.Sprint("worker", i))
		h.Serve(func(ctx context.Context) error { return a.work(ctx, h) })
	}
	for i := range w.Amount("webs", 2) {
		web := &web{a: a, h: w.Host(fmt.Sprint("web", i))}
		web.h.Go(web.run)
	}
	a.paused = make([]time.Duration, len(w.Hosts()))
	a.wasPaused = make([]bool, len(w.Hosts()))
	if a.quiet {
		w.Latency = sim.Fixed(time.Millisecond)
		w.Faults = sim.Faults{For: time.Second, PauseEvery: 300 * time.Millisecond, PauseFor: 5 * time.Millisecond}
	} else {
		w.Faults = sim.Faults{
			For: 2 * time.Second, Lasting: 100 * time.Millisecond, Loss: 0.01, Dribble: 0.02,
			PartitionEvery: 400 * time.Millisecond, CrashEvery: 500 * time.Millisecond, PauseEvery: 400 * time.Millisecond,
			ClockEvery: time.Second,
		}
	}
	w.Always("the accounts are right", a.check)
	w.Eventually("the context of every handler ends", 10*time.Second, func() bool {
		return a.webs == 0 && len(a.running) == 0
	})
}

// account is what the checks know of all hosts.
type account struct {
	w        *sim.World
	each     int  // calls of each task of a web host
	quiet    bool // nothing is lost
	webs     int  // programs of web hosts that run
	running  map[string]*handling
	handled  map[string]int           // how often a handler was called, by request
	canceled map[string]time.Duration // when a call was cancelled, by request

	paused    []time.Duration // by host: for how long it was paused
	wasPaused []bool
	checked   time.Duration // when paused was brought up to date
	failure   error
}

// handling is a handler that runs.
type handling struct {
	limit time.Duration // of its context
	timer clock
}

// clock measures time on a host, without pauses.
type clock struct {
	a         *account
	host      int
	at, pause time.Duration
}

func (a *account) clock(h *sim.Host) clock {
	for i, other := range a.w.Hosts() {
		if other == h {
			return clock{a, i, a.w.Now(), a.pauses(i)}
		}
	}
	panic("relaysim: no such host")
}

func (c clock) elapsed() time.Duration {
	return c.a.w.Now() - c.at - (c.a.pauses(c.host) - c.pause)
}

// pauses returns for how long a host was paused until now.
func (a *account) pauses(host int) time.Duration {
	d := a.paused[host]
	if a.wasPaused[host] {
		d += a.w.Now() - a.checked
	}
	return d
}

// check is called after every event.
func (a *account) check() error {
	for i, h := range a.w.Hosts() {
		a.paused[i] = a.pauses(i)
		a.wasPaused[i] = h.Paused()
	}
	a.checked = a.w.Now()
	for _, body := range slices.Sorted(maps.Keys(a.running)) {
		h := a.running[body]
		if over := h.timer.elapsed() - h.limit; over > slack(h.limit) {
			return fmt.Errorf("the context of %s did not end: %v over its deadline", body, over)
		}
		if at, ok := a.canceled[body]; ok && a.quiet && a.w.Now()-at > quietEnd {
			return fmt.Errorf("the handler of %s runs %v after the call was cancelled", body, a.w.Now()-at)
		}
	}
	return a.failure
}

// quietEnd is how long a cancellation may take if nothing is lost: the way to the bus and
// to the worker, and the longest pauses.
const quietEnd = 100 * time.Millisecond

// slack is how late a timer may be: clocks are up to 1 % wrong.
func slack(d time.Duration) time.Duration { return d/50 + time.Millisecond }

func (a *account) fail(format string, args ...any) {
	if a.failure == nil {
		a.failure = fmt.Errorf(format, args...)
	}
}

// order is what a request tells its handler to do.
type order struct {
	name  string
	what  string // "echo", "fail", "panic", "stuck", "items"
	n     int    // milliseconds, or items
	limit int    // the deadline, in milliseconds
}

func (o order) String() string { return fmt.Sprintf("%s %s %d %d", o.name, o.what, o.n, o.limit) }

func parse(s string) (o order, err error) {
	_, err = fmt.Sscan(s, &o.name, &o.what, &o.n, &o.limit)
	return o, err
}

// work is the program of a worker.
func (a *account) work(ctx context.Context, h *sim.Host) error {
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		bus := Connect(n, "bus")
		defer bus.Close()
		return relay.NewWorker(bus).Serve(ctx, "work", func(ctx context.Context, r *relay.Request) ([]byte, error) {
			return a.handle(ctx, h, r)
		}, relay.ServeOptions{InTasks: true, Concurrency: 2, Drain: 100 * time.Millisecond, ErrorLog: slog.New(slog.DiscardHandler)})
	})
}

func (a *account) handle(ctx context.Context, h *sim.Host, r *relay.Request) ([]byte, error) {
	body := string(r.Body)
	o, err := parse(body)
	if err != nil {
		return nil, err
	}
	if a.handled[body]++; a.handled[body] > 1 {
		a.fail("%s is handled twice", body)
	}
	a.running[body] = &handling{time.Duration(o.limit) * time.Millisecond, a.clock(h)}
	defer delete(a.running, body)
	reply := []byte("re: " + body)
	switch o.what {
	case "fail":
		return nil, errors.New(string(reply))
	case "panic":
		panic(string(reply))
	case "stuck":
		return nil, spindle.Sleep(ctx, time.Hour)
	case "items":
		for range o.n {
			if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
				return nil, err
			}
			if err := r.Send(ctx, reply); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	return reply, spindle.Sleep(ctx, time.Duration(o.n)*time.Millisecond)
}

// web is a web host. After a crash it continues with the next call.
type web struct {
	a    *account
	h    *sim.Host
	made int
}

const tasksOfWeb = 3

func (b *web) run(ctx context.Context) error {
	b.a.webs++
	defer func() { b.a.webs-- }()
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		bus := Connect(n, "bus")
		defer bus.Close()
		caller, err := relay.NewCaller(ctx, bus, relay.CallerOptions{Timeout: time.Second, Window: 2, MaxWaiters: tasksOfWeb})
		if err != nil {
			return err
		}
		for bus.Ready() != nil {
			if err := spindle.Sleep(ctx, 3*time.Millisecond); err != nil {
				return err
			}
		}
		err = spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for range tasksOfWeb {
				n.Go(func(ctx context.Context) error {
					for b.made < b.a.each {
						b.made++
						if err := b.call(ctx, caller, fmt.Sprint(b.h.Name(), ".", b.made)); err != nil {
							return err
						}
					}
					return nil
				})
			}
			return nil
		})
		s := caller.Stats()
		if ended := s.Replied + s.TimedOut + s.Canceled + s.Failed; err == nil && (s.Waiting != 0 || ended != s.Calls) {
			err = fmt.Errorf("the counts are wrong: %+v", s)
		}
		return errors.Join(err, caller.Close(), bus.Flush(ctx))
	})
}

// draw draws an order and when its scope ends.
func draw(r *rand.Rand, name string) (o order, scope int) {
	o = order{name: name, what: "echo", n: r.IntN(20), limit: 2 + r.IntN(60)}
	switch r.IntN(10) {
	case 0:
		o.what = "fail"
	case 1:
		o.what = "panic"
	case 2, 3:
		o.what = "stuck"
	case 4, 5:
		o.what = "items"
	}
	scope = 10_000
	if r.IntN(3) == 0 {
		scope = 1 + r.IntN(30)
		o.limit += 500 // so that a missed cancellation is noticed
	}
	return o, scope
}

// call makes one call, and checks its end.
func (b *web) call(ctx context.Context, c *relay.Caller, name string) error {
	o, scope := draw(spindle.Rand(ctx), name)
	e := relay.Envelope{Subject: "work", Body: []byte(o.String()), Deadline: time.Duration(o.limit) * time.Millisecond}
	timer := b.a.clock(b.h)
	var answer error
	expired, err := b.endAfter(ctx, time.Duration(scope)*time.Millisecond, func(ctx context.Context) error {
		if o.what == "items" {
			answer = b.stream(ctx, c, o, e)
		} else {
			answer = b.single(ctx, c, o, e)
		}
		if errors.As(answer, new(*spindle.Canceled)) {
			b.a.canceled[o.String()] = b.a.w.Now()
			return answer
		}
		return nil
	})
	if err != nil {
		return err // the host crashes, or the run ends
	}
	limit := min(e.Deadline, time.Duration(scope)*time.Millisecond)
	if over := timer.elapsed() - limit; over > slack(limit) {
		return fmt.Errorf("%s ended %v after its deadline: %v", o, over, answer)
	}
	if errors.Is(answer, relay.ErrDown) {
		return spindle.Sleep(ctx, 20*time.Millisecond)
	}
	return b.judge(o, expired, answer)
}

// endAfter runs fn in a scope that ends after d, by its deadline or because its client
// leaves.
func (b *web) endAfter(ctx context.Context, d time.Duration, fn func(context.Context) error) (ended bool, err error) {
	if spindle.Rand(ctx).IntN(2) == 0 {
		return spindle.MoveOnAfter(ctx, d, fn)
	}
	err = spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
		left := spindle.LoopOf(ctx).CallLater(d, func() { s.Cancel(nil) })
		defer left.Cancel()
		err := fn(ctx)
		ended = s.Err() != nil
		return err
	})
	return ended, err
}

// judge returns an error if a call must not end with answer.
func (b *web) judge(o order, expired bool, answer error) error {
	var remote *relay.RemoteError
	switch {
	case answer == nil, expired, errors.Is(answer, spindle.ErrTimeout):
		return nil
	case errors.Is(answer, relay.ErrNoResponder), errors.Is(answer, relay.ErrFull), !b.a.quiet && errors.Is(answer, io.ErrUnexpectedEOF):
		return nil
	case !errors.As(answer, &remote):
	case remote.Code == "canceled", remote.Code == "deadline": // the worker ended, or was first
		return nil
	case (o.what == "fail" || o.what == "panic") && remote.Message == "re: "+o.String():
		return nil
	case remote.Code == "error" && o.what != "fail": // the worker's deadline was first
		return nil
	}
	return fmt.Errorf("%s: %w", o, answer)
}

func (b *web) single(ctx context.Context, c *relay.Caller, o order, e relay.Envelope) error {
	reply, err := c.Do(ctx, e)
	if err == nil && string(reply.Body) != "re: "+o.String() {
		b.a.fail("%s gets the reply %q", o, reply.Body)
	}
	return err
}

func (b *web) stream(ctx context.Context, c *relay.Caller, o order, e relay.Envelope) error {
	s, err := c.Stream(ctx, e)
	if err != nil {
		return err
	}
	defer s.Close()
	for n := 0; ; n++ {
		item, err := s.Next(ctx)
		switch {
		case err == io.EOF && n != o.n:
			b.a.fail("%s gets %d items", o, n)
			return nil
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case string(item) != "re: "+o.String():
			b.a.fail("%s gets the item %q", o, item)
		}
	}
}
