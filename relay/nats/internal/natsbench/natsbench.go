// Package natsbench measures calls over NATS beside requests of the plain client, in the same
// run and on the same server.
package natsbench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/report"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
)

// Options configures Measure.
type Options struct {
	// Rounds is how often each program is measured, one after the other. Zero means 9.
	Rounds int

	// Round is how long each program runs in a round. Zero means 150 ms.
	Round time.Duration
}

// inFlight is how many calls are made at a time where there are many.
const inFlight = 64

// program is what is measured: call makes a call and waits for the reply.
type program struct {
	name  string
	call  func(ctx context.Context) error
	n     int       // calls at a time
	tasks bool      // they are made by tasks of a loop; otherwise by goroutines
	per   []float64 // nanoseconds for each call, of each round
	cpu   []float64 // those of the processors
}

// Measure measures calls on the servers of a URL. Both sides answer with what they get, on
// connections of their own: the plain worker in the callback of its subscription or on a
// goroutine for each request, the other one as a relay.Worker with its defaults. A ratio is that of the
// rates: a program's over the plain client's in the same round. 1 is as quick, more is quicker.
func Measure(ctx context.Context, servers string, o Options) ([]report.Section, error) {
	o.Rounds, o.Round = cmp.Or(o.Rounds, 9), cmp.Or(o.Round, 150*time.Millisecond)
	calls, stopRelay, err := startRelay(ctx, servers)
	if err != nil {
		return nil, err
	}
	defer stopRelay()
	requests, stopPlain, err := startPlain(servers)
	if err != nil {
		return nil, err
	}
	defer stopPlain()
	least, stopLeast, err := startMinimal(servers)
	if err != nil {
		return nil, err
	}
	defer stopLeast()
	plain, call := requests(inCallback), calls(subject)
	programs := []*program{
		{name: "plain", call: plain, n: 1}, {name: "call", call: call, n: 1}, {name: "task", call: call, n: 1, tasks: true}, {name: "minimal", call: least, n: 1},
		{name: "plain many", call: plain, n: inFlight}, {name: "call many", call: call, n: inFlight}, {name: "task many", call: call, n: inFlight, tasks: true},
		{name: "minimal many", call: least, n: inFlight}, {name: "spawned", call: requests(onSpawned), n: inFlight},
		{name: "task to plain", call: calls(inCallback), n: inFlight, tasks: true}, {name: "plain to worker", call: requests(subject), n: inFlight},
		{name: "task to least", call: calls(onBus), n: inFlight, tasks: true},
	}
	for _, p := range programs {
		if err := await(ctx, p.call); err != nil {
			return nil, err
		}
	}
	for round := range o.Rounds + 1 {
		for i := range programs {
			p := programs[(i+round*2)%len(programs)] // no program has always the same before it
			before := processorTime()
			per, n, err := p.run(ctx, o.Round)
			if err != nil {
				return nil, err
			}
			if round > 0 { // the first one warms up
				p.per = append(p.per, per)
				// The clock of the system may not have advanced.
				p.cpu = append(p.cpu, max(float64(processorTime()-before)/float64(n), 1))
			}
		}
	}
	return tables(programs), nil
}

// tables returns the figures: the time of a call, and with 64 in flight the rate, the time between two calls and the
// processor time of a call, which is that of both clients, and of the server if it is in this process. It varies less than
// the others.
func tables(programs []*program) []report.Section {
	row := func(name, text, key, ratio string, cpu bool) report.Row {
		p := programs[slices.IndexFunc(programs, func(p *program) bool { return p.name == name })]
		r := report.Row{Name: text, Ours: name != "plain" && name != "plain many" && name != "spawned", Key: key, RatioKey: ratio, Figures: [][]float64{p.per}}
		if cpu {
			r.Figures[0] = p.cpu
		}
		return r
	}
	rate := func(name, text, key string) report.Row {
		r := row(name, text, key, "", false)
		rates := make([]float64, len(r.Figures[0]))
		for i, ns := range r.Figures[0] {
			rates[i] = 1e9 / ns
		}
		r.Figures[0] = rates
		return r
	}
	const client = "plain client"
	table := func(title, column, reference string, rows ...report.Row) report.Section {
		return report.Section{Title: title, Reference: reference, Columns: []report.Column{{Name: column, Unit: report.Number, Better: report.Lower}}, Rows: rows}
	}
	all := []report.Section{
		table("A call on NATS", "ns", client, row("plain", client, "nats_plain_ns", "", false), row("call", "call", "nats_call_ns", "nats_ratio", false),
			row("task", "call from a task", "nats_task_ns", "nats_task_ratio", false),
			row("minimal", "the least that a call needs, on the plain client", "", "nats_minimal_ratio", false)),
		table("64 calls in flight", "calls / s", "", rate("plain many", client, "nats_plain_per_s"), rate("call many", "calls", "nats_calls_per_s")),
		table("64 calls in flight, time between two", "ns", client, row("plain many", client, "", "", false), row("call many", "calls", "", "nats_many_ratio", false),
			row("task many", "calls from tasks", "", "nats_task_many_ratio", false),
			row("minimal many", "the least that a call needs, on the plain client", "", "nats_minimal_many_ratio", false),
			row("task to plain", "calls from tasks to the plain worker", "", "nats_task_to_plain_ratio", false),
			row("task to least", "calls from tasks to the least worker on our connection", "", "nats_task_to_least_ratio", false),
			row("plain to worker", "plain client to a relay.Worker", "", "nats_plain_to_worker_ratio", false)),
		table("The same beside handlers that may block", "ns", "plain client, on goroutines", row("spawned", "plain client, on goroutines", "", "", false),
			row("call many", "calls", "", "nats_goroutine_ratio", false), row("task many", "calls from tasks", "", "nats_task_goroutine_ratio", false)),
		table("Processor time of a call, 64 in flight", "ns", client, row("plain many", client, "nats_plain_cpu_ns", "", true), row("call many", "calls", "", "nats_cpu_ratio", true),
			row("task many", "calls from tasks", "", "nats_task_cpu_ratio", true), row("spawned", "plain handlers on goroutines", "", "nats_goroutine_cpu_ratio", true),
			row("minimal many", "the least that a call needs, on the plain client", "", "nats_minimal_cpu_ratio", true),
			row("task to plain", "calls from tasks to the plain worker", "", "nats_task_to_plain_cpu_ratio", true),
			row("task to least", "calls from tasks to the least worker on our connection", "", "nats_task_to_least_cpu_ratio", true),
			row("plain to worker", "plain client to a relay.Worker", "", "nats_plain_to_worker_cpu_ratio", true)),
	}
	all[1].Columns[0].Unit, all[1].Columns[0].Better = report.PerSecond, report.Higher
	return all
}

// await makes calls until one finds its worker: in a cluster, other servers learn of a worker a
// moment later.
func await(ctx context.Context, call func(context.Context) error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(time.Minute); ; {
		err := call(ctx)
		if !errors.Is(err, relay.ErrNoResponder) && !errors.Is(err, client.ErrNoResponders) {
			return err
		}
		select {
		case <-tick.C:
		case <-limit:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// run makes calls for d, and returns the time for each, and how many they were.
func (p *program) run(ctx context.Context, d time.Duration) (ns float64, n int64, err error) {
	if p.tasks {
		return p.runTasks(ctx, d)
	}
	var calls atomic.Int64
	var failure atomic.Pointer[error]
	var all sync.WaitGroup
	began := time.Now()
	for range p.n {
		all.Go(func() {
			n := int64(0)
			for { // at least once: on a busy machine d may have passed before
				for range 4 {
					if err := p.call(ctx); err != nil {
						failure.CompareAndSwap(nil, &err)
						break
					}
					n++
				}
				if time.Since(began) >= d || failure.Load() != nil || ctx.Err() != nil {
					break
				}
			}
			calls.Add(n)
		})
	}
	all.Wait()
	took := time.Since(began)
	switch err := failure.Load(); {
	case err != nil:
		return 0, 0, *err
	case ctx.Err() != nil:
		return 0, 0, context.Cause(ctx)
	}
	return float64(took) / float64(calls.Load()), calls.Load(), nil
}

// runTasks is run with tasks of one loop.
func (p *program) runTasks(ctx context.Context, d time.Duration) (ns float64, n int64, err error) {
	calls, took := int64(0), time.Duration(0)
	err = spindle.Run(ctx, func(ctx context.Context) error {
		began := time.Now()
		err := spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
			for range p.n {
				n.Go(func(ctx context.Context) error {
					for { // at least once, as in run
						for range 4 {
							if err := p.call(ctx); err != nil {
								return err
							}
							calls++
						}
						if time.Since(began) >= d {
							return nil
						}
					}
				})
			}
			return nil
		})
		took = time.Since(began)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return float64(took) / float64(calls), calls, nil
}

const (
	subject    = "spindle.bench.relay"
	inCallback = "spindle.bench.callback"
	onSpawned  = "spindle.bench.goroutine"
	onBus      = "spindle.bench.bus"
)

// startPlain starts a worker and a requester of the plain client. The worker has a handler in the
// callback, and one on goroutines.
func startPlain(servers string) (requests func(subject string) func(context.Context) error, stop func(), err error) {
	worker, err := client.Connect(servers)
	if err != nil {
		return nil, nil, fmt.Errorf("natsbench: %w", err)
	}
	requester, err := client.Connect(servers)
	if err != nil {
		worker.Close()
		return nil, nil, fmt.Errorf("natsbench: %w", err)
	}
	stop = func() {
		worker.Close()
		requester.Close()
	}
	respond := func(m *client.Msg) { _ = m.Respond(m.Data) } // the requester has a time-out
	_, err1 := worker.QueueSubscribe(inCallback, "workers", respond)
	_, err2 := worker.QueueSubscribe(onSpawned, "workers", func(m *client.Msg) { go respond(m) })
	if err = errors.Join(err1, err2, worker.Flush()); err != nil {
		stop()
		return nil, nil, fmt.Errorf("natsbench: %w", err)
	}
	body := make([]byte, 64)
	return func(subject string) func(context.Context) error {
		return func(context.Context) error {
			_, err := requester.Request(subject, body, 30*time.Second)
			return err
		}
	}, stop, nil
}

// startRelay starts a relay.Worker, the least worker, and a relay.Caller.
func startRelay(ctx context.Context, servers string) (calls func(subject string) func(context.Context) error, stop func(), err error) {
	var stops []func()
	stopAll := func() {
		for _, fn := range slices.Backward(stops) {
			fn()
		}
	}
	defer func() {
		if err != nil {
			stopAll()
		}
	}()
	var buses [3]*nats.Bus
	for i := range buses {
		if buses[i], err = nats.Connect(ctx, servers, nats.Options{}); err != nil {
			return nil, nil, err
		}
		stops = append(stops, func() { buses[i].Close() })
	}
	serving, cancel := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- relay.NewWorker(buses[0]).Serve(serving, subject, func(_ context.Context, r *relay.Request) ([]byte, error) {
			return r.Body, nil
		}, relay.ServeOptions{Ready: func() { close(ready) }})
	}()
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		return nil, nil, err
	}
	stops = append(stops, func() { cancel(); <-ended })
	if err := serveLeast(ctx, buses[2]); err != nil {
		return nil, nil, err
	}
	caller, err := relay.NewCaller(ctx, buses[1], relay.CallerOptions{})
	if err != nil {
		return nil, nil, err
	}
	stops = append(stops, func() { caller.Close() })
	body := make([]byte, 64)
	return func(subject string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := caller.Call(ctx, subject, body)
			return err
		}
	}, stopAll, nil
}
