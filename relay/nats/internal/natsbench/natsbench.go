// Package natsbench measures calls over NATS beside requests of the plain client, in the same
// run and on the same server.
package natsbench

import (
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

// Figures are medians over all rounds. A ratio is that of the rates: relay's over the plain
// client's in the same round. 1 is as quick, more is quicker.
type Figures struct {
	CallNS  float64 // one call at a time
	PlainNS float64 // one request at a time
	Ratio   float64

	CallsPerS float64 // with 64 in flight
	PlainPerS float64
	ManyRatio float64

	// The same with calls from tasks of one loop, as a web plane makes them.
	TaskNS        float64
	TaskRatio     float64
	TaskManyRatio float64

	// GoroutineRatio is ManyRatio against plain workers that start a goroutine for each
	// request, so that their handlers may block, as those of relay may.
	GoroutineRatio float64

	// TaskGoroutineRatio is the same with calls from tasks.
	TaskGoroutineRatio float64

	// PlainCPU is the processor time of a request of the plain client in nanoseconds, 64 in flight: of
	// both clients, and of the server if it is in this process. The others are ratios of these times. They
	// vary less than rates do.
	PlainCPU, CPURatio, TaskCPURatio, GoroutineCPURatio, MinimalCPURatio float64

	// MinimalRatio is the rate of the least that a call needs, on the plain client, over that of its
	// requests, one in flight. MinimalManyRatio is the same with 64.
	MinimalRatio, MinimalManyRatio float64

	// One side of a call at a time, 64 in flight: calls from tasks to the plain worker that answers in its
	// callback, requests of the plain client to a relay.Worker, and calls from tasks to the least worker on
	// the connection of package nats.
	TaskToPlain, PlainToWorker, TaskToLeast Pair
}

// Pair has the rate and the processor time of a program over those of requests of the plain client. More
// is better in both.
type Pair struct{ Rate, CPU float64 }

// inFlight is how many calls are made at a time where there are many.
const inFlight = 64

// program is what is measured: call makes a call and waits for the reply.
type program struct {
	call  func(ctx context.Context) error
	n     int       // calls at a time
	tasks bool      // they are made by tasks of a loop; otherwise by goroutines
	per   []float64 // nanoseconds for each call, of each round
	cpu   []float64 // those of the processors
}

// Measure measures calls on the servers of a URL. Both sides answer with what they get, on
// connections of their own: the plain worker in the callback of its subscription or on a
// goroutine for each request, the other one as a relay.Worker with its defaults.
func Measure(ctx context.Context, servers string, o Options) (Figures, error) {
	if o.Rounds == 0 {
		o.Rounds = 9
	}
	if o.Round == 0 {
		o.Round = 150 * time.Millisecond
	}
	calls, stopRelay, err := startRelay(ctx, servers)
	if err != nil {
		return Figures{}, err
	}
	defer stopRelay()
	requests, stopPlain, err := startPlain(servers)
	if err != nil {
		return Figures{}, err
	}
	defer stopPlain()
	least, stopLeast, err := startMinimal(servers)
	if err != nil {
		return Figures{}, err
	}
	defer stopLeast()
	plain, call := requests(inCallback), calls(subject)
	programs := []*program{{call: plain, n: 1}, {call: call, n: 1}, {call: plain, n: inFlight}, {call: call, n: inFlight}, {call: requests(onSpawned), n: inFlight},
		{call: call, n: 1, tasks: true}, {call: call, n: inFlight, tasks: true}, {call: least, n: 1}, {call: least, n: inFlight},
		{call: calls(inCallback), n: inFlight, tasks: true}, {call: requests(subject), n: inFlight}, {call: calls(onBus), n: inFlight, tasks: true}}
	for _, p := range programs {
		if err := await(ctx, p.call); err != nil {
			return Figures{}, err
		}
	}
	for round := range o.Rounds + 1 {
		for i := range programs {
			p := programs[(i+round*2)%len(programs)] // no program has always the same before it
			before := processorTime()
			per, n, err := p.run(ctx, o.Round)
			if err != nil {
				return Figures{}, err
			}
			if round > 0 { // the first one warms up
				p.per = append(p.per, per)
				p.cpu = append(p.cpu, float64(processorTime()-before)/float64(n))
			}
		}
	}
	f := Figures{
		PlainNS: median(programs[0].per), CallNS: median(programs[1].per), Ratio: ratio(programs[0], programs[1]),
		PlainPerS: 1e9 / median(programs[2].per), CallsPerS: 1e9 / median(programs[3].per), ManyRatio: ratio(programs[2], programs[3]),
		GoroutineRatio: ratio(programs[4], programs[3]), TaskGoroutineRatio: ratio(programs[4], programs[6]),
		TaskNS: median(programs[5].per), TaskRatio: ratio(programs[0], programs[5]), TaskManyRatio: ratio(programs[2], programs[6]),
		MinimalRatio: ratio(programs[0], programs[7]), MinimalManyRatio: ratio(programs[2], programs[8]),
		PlainCPU: median(programs[2].cpu), CPURatio: cpuRatio(programs[2], programs[3]), TaskCPURatio: cpuRatio(programs[2], programs[6]),
		GoroutineCPURatio: cpuRatio(programs[2], programs[4]), MinimalCPURatio: cpuRatio(programs[2], programs[8]),
		TaskToPlain: pair(programs[2], programs[9]), PlainToWorker: pair(programs[2], programs[10]), TaskToLeast: pair(programs[2], programs[11]),
	}
	return f, nil
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

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// ratio returns the median of the rounds' ratios.
func ratio(plain, relay *program) float64 { return ratios(plain.per, relay.per) }

// cpuRatio is ratio for the time of the processors.
func cpuRatio(plain, relay *program) float64 { return ratios(plain.cpu, relay.cpu) }

func pair(plain, relay *program) Pair { return Pair{ratio(plain, relay), cpuRatio(plain, relay)} }

func ratios(plain, relay []float64) float64 {
	var all []float64
	for i := range plain {
		all = append(all, plain[i]/max(relay[i], 1)) // the clock of the system may not have advanced
	}
	return median(all)
}
