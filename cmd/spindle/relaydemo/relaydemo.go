// Package relaydemo has the web plane, the workers and the page of "spindle relay demo". It
// runs on any relay.Bus: the command of relay/nats uses it too.
package relaydemo

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/web"
)

//go:embed index.html
var pages embed.FS

// Options configure a Demo.
type Options struct {
	// Bus names the bus on the page.
	Bus string

	// Connect returns a bus. It is called for the web plane and for each start of a
	// worker, as if they were on different machines. Each bus is closed after its use.
	Connect func(ctx context.Context) (relay.Bus, error)
}

// workers is how many workers a Demo has.
const workers = 2

// Demo is a web plane with two workers.
type Demo struct {
	o       Options
	subject string // no other Demo on the bus has it
	bus     relay.Bus
	caller  *relay.Caller
	work    *gateway.Handler
	flight  atomic.Int64 // requests that are not answered
	workers [workers]*worker
}

// Start starts the web plane and the workers. Close ends them.
func Start(ctx context.Context, o Options) (*Demo, error) {
	d := &Demo{o: o, subject: "spindle.demo." + rand.Text()}
	var err error
	if d.bus, err = o.Connect(ctx); err != nil {
		return nil, err
	}
	d.caller, err = relay.NewCaller(ctx, d.bus, relay.CallerOptions{Timeout: 30 * time.Second, FailWhenFull: true})
	if err != nil {
		d.bus.Close()
		return nil, err
	}
	d.work = gateway.New(d.caller, gateway.Route{Subject: d.subject})
	for i := range d.workers {
		d.workers[i] = &worker{d: d}
	}
	for _, w := range d.workers {
		if err := w.start(ctx); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// Close ends the workers and the web plane.
func (d *Demo) Close() error {
	for _, w := range d.workers {
		w.kill()
	}
	err := d.caller.Close()
	return errors.Join(err, d.bus.Close())
}

// Serve runs a demo until ctx ends. It calls listening when the page can be opened.
func Serve(ctx context.Context, address string, o Options, listening func(net.Addr)) error {
	d, err := Start(ctx, o)
	if err != nil {
		return err
	}
	s := d.Server()
	s.OnListen, s.DrainTimeout = listening, time.Second
	err = s.ListenAndServe(ctx, address)
	if errors.Is(err, web.ErrDrainTimeout) {
		err = nil // calls of half a second may be under way
	}
	if closed := d.Close(); !errors.Is(closed, relay.ErrLeak) {
		err = errors.Join(err, closed)
	}
	return err
}

// Server returns a server of the page:
//
//	/work?ms=500                a call that takes that long
//	POST /burst?n=100           that many calls at a time; how many succeeded and failed, as JSON
//	/state                      counts, waiters and workers as JSON
//	POST /workers/1/kill        ends a worker; its calls fail
//	POST /workers/1/start       starts it again
//	/health, /ready             the web plane answers; the bus is connected
func (d *Demo) Server() *web.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, pages, "index.html") })
	mux.Handle("GET /work", web.Inline(http.HandlerFunc(d.serveWork)))
	mux.HandleFunc("POST /burst", d.serveBurst)
	mux.Handle("GET /health", web.Inline(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })))
	mux.Handle("GET /ready", web.Inline(gateway.Ready(d.bus)))
	mux.HandleFunc("GET /state", d.serveState)
	mux.HandleFunc("POST /workers/{n}/{action}", d.serveWorker)
	return &web.Server{Handler: mux}
}

// maxWork limits the ms parameter.
const maxWork = 20 * time.Second

// workTime returns how long a call takes.
func workTime(query string) (time.Duration, error) {
	values, err := url.ParseQuery(query)
	text := values.Get("ms")
	if err == nil && text == "" {
		return 500 * time.Millisecond, nil
	}
	ms, bad := strconv.ParseUint(text, 10, 32)
	if d := time.Duration(ms) * time.Millisecond; err == nil && bad == nil && d <= maxWork {
		return d, nil
	}
	return 0, fmt.Errorf("ms must be a number from 0 to %d", maxWork/time.Millisecond)
}

func (d *Demo) serveWork(w http.ResponseWriter, r *http.Request) {
	if _, err := workTime(r.URL.RawQuery); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d.call(w, r)
}

// call answers a request with a call of a worker.
func (d *Demo) call(w http.ResponseWriter, r *http.Request) {
	d.flight.Add(1)
	defer d.flight.Add(-1)
	d.work.ServeHTTP(w, r)
}

// state is the answer of /state.
type state struct {
	Bus     string
	Ready   string // why the bus is not ready; "" if it is
	Flight  int64  // requests that are not answered
	Calls   relay.CallerStats
	HTTP    gateway.Stats
	Waiters []waiter // the oldest
	Workers []workerState
}

type waiter struct {
	ID       string
	AgeMS    int64
	RemainMS int64
}

// maxWaiters is how many waiters the page lists.
const maxWaiters = 12

func (d *Demo) serveState(w http.ResponseWriter, _ *http.Request) {
	s := state{Bus: d.o.Bus, Flight: d.flight.Load(), Calls: d.caller.Stats(), HTTP: d.work.Stats(), Waiters: []waiter{}}
	if err := d.bus.Ready(); err != nil {
		s.Ready = err.Error()
	}
	var all []probe.Call
	probe.EachCaller(func(_ int, c probe.Caller) {
		calls, _ := c.ProbeCalls(1000)
		all = append(all, calls...)
	})
	slices.SortFunc(all, func(a, b probe.Call) int { return cmp.Compare(b.Age, a.Age) })
	for _, i := range all[:min(len(all), maxWaiters)] {
		s.Waiters = append(s.Waiters, waiter{strconv.FormatUint(i.ID, 16), i.Age.Milliseconds(), i.Left.Milliseconds()})
	}
	for _, w := range d.workers {
		s.Workers = append(s.Workers, w.state())
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(s) // the client may be gone
}

// sameSite refuses requests of pages of other sites, by Sec-Fetch-Site or by Origin.
var sameSite = http.NewCrossOriginProtection()

// refused answers requests of pages of other sites, which may send a simple POST.
func refused(w http.ResponseWriter, r *http.Request) bool {
	if sameSite.Check(r) == nil {
		return false
	}
	http.Error(w, "not from another site", http.StatusForbidden)
	return true
}

func (d *Demo) serveWorker(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.PathValue("n"))
	if err != nil || n < 1 || n > workers {
		http.Error(w, fmt.Sprintf("there are workers 1 to %d", workers), http.StatusNotFound)
		return
	}
	if refused(w, r) {
		return
	}
	switch r.PathValue("action") {
	case "kill":
		d.workers[n-1].kill()
	case "start":
		if err := d.workers[n-1].start(context.WithoutCancel(r.Context())); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	default:
		http.Error(w, "want kill or start", http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
