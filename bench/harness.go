//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spindleloop/spindle/bench/load"
	"github.com/spindleloop/spindle/bench/proc"
	"github.com/spindleloop/spindle/bench/report"
)

// A harness runs benchmarks: it starts servers, sends them load and collects the
// failures.
type harness struct {
	ctx        context.Context
	o          options
	builder    *builder
	serverCPU  int
	loadCPU    int
	progress   io.Writer
	contenders []*contender
	failures   []string                        // one line for each server that failed
	logged     map[string]bool                 // lines that are logged once, not for every benchmark
	printed    map[string][]map[string]float64 // figures that a program printed, by round
}

// A contender is a variant that is installed here.
type contender struct {
	variant
	command command
}

// newHarness chooses the cores and prepares the builder.
func newHarness(ctx context.Context, o options, progress io.Writer) (*harness, error) {
	h := &harness{
		ctx: ctx, o: o, progress: progress,
		logged:  map[string]bool{},
		printed: map[string][]map[string]float64{},
	}
	if err := h.chooseCores(); err != nil {
		return nil, err
	}
	limit, err := proc.RaiseFileLimit()
	if err != nil {
		return nil, err
	}
	const spare = 200 // files that a runtime and its libraries keep open
	if need := max(o.high, o.idle+o.active, o.conns, o.slow+o.webConns) + spare; need > limit {
		return nil, fmt.Errorf("the benchmarks need %d open files, but the limit is %d; lower --high, --idle or --conns: %w", need, limit, errUsage)
	}
	if h.builder, err = newBuilder(o); err != nil {
		return nil, err
	}
	if o.spindle != "" {
		if _, err := h.builder.spindle(); err != nil {
			h.close()
			return nil, fmt.Errorf("--spindle: %w: %w", err, errUsage)
		}
	}
	return h, nil
}

func (h *harness) chooseCores() error {
	cores, err := proc.Cores()
	if err != nil {
		return err
	}
	h.serverCPU, h.loadCPU = h.o.serverCPU, h.o.loadCPU
	if h.serverCPU < 0 {
		h.serverCPU = cores[0]
	}
	if h.loadCPU < 0 {
		h.loadCPU = cores[min(1, len(cores)-1)]
	}
	for _, core := range []int{h.serverCPU, h.loadCPU} {
		if !slices.Contains(cores, core) {
			return fmt.Errorf("no core %d; there are %v: %w", core, cores, errUsage)
		}
	}
	if h.serverCPU == h.loadCPU {
		h.logf("servers and load share core %d: latencies and requests per second mean little", h.serverCPU)
	}
	return nil
}

func (h *harness) close() { h.builder.close() }

// logf prints a line about the progress.
func (h *harness) logf(format string, args ...any) { fmt.Fprintf(h.progress, format+"\n", args...) }

// prepare builds the chosen servers, once for all benchmarks. It logs a line for each
// server that is not installed.
func (h *harness) prepare() {
	if h.contenders != nil {
		return
	}
	h.contenders = []*contender{}
	for _, v := range variants {
		if len(h.o.servers) > 0 && !slices.Contains(h.o.servers, v.name) {
			continue
		}
		command, err := v.prepare(h.builder)
		if err != nil {
			h.unprepared(v.name, err)
			continue
		}
		h.contenders = append(h.contenders, &contender{v, command})
	}
}

// speaking returns the contenders that speak a protocol.
func (h *harness) speaking(protocol string) (all []*contender) {
	h.prepare()
	for _, c := range h.contenders {
		if c.speaks == protocol {
			all = append(all, c)
		}
	}
	return all
}

// hasServersFor reports whether --servers includes a server for a benchmark.
func (h *harness) hasServersFor(m benchmark) bool {
	return len(h.o.servers) == 0 || slices.ContainsFunc(variants, func(v variant) bool {
		return v.speaks == m.speaks && slices.Contains(h.o.servers, v.name)
	})
}

// unprepared handles the error of a server or program that could not be prepared. It
// logs a line if a tool is not installed, and records a failure otherwise.
func (h *harness) unprepared(name string, err error) {
	var missing notInstalled
	if !errors.As(err, &missing) {
		h.fail("build", name, err)
		return
	}
	if line := name + ": left out: " + string(missing); !h.logged[line] {
		h.logged[line] = true
		h.logf("%s", line)
	}
}

// fail records that a server failed. The benchmark continues without it.
func (h *harness) fail(benchmark, name string, err error) {
	line := fmt.Sprintf("%s: %s: %s", benchmark, name, strings.ReplaceAll(err.Error(), "\n", " | "))
	h.failures = append(h.failures, line)
	h.logf("FAILED %s", line)
}

// start starts a contender's server.
func (h *harness) start(c *contender, bufferBytes int) (*proc.Server, error) {
	var env []string
	cores := []int{h.serverCPU}
	switch {
	case c.cores > 1:
		cores = append(cores, h.loadCPU) // shared with the load generator
		env = append(env, "GOMAXPROCS="+strconv.Itoa(c.cores))
	case c.goRuntime && h.o.gomaxprocs > 0:
		env = append(env, "GOMAXPROCS="+strconv.Itoa(h.o.gomaxprocs))
	}
	return proc.StartServer(cores, c.command(listenAddr, bufferBytes), env)
}

// loadLimit is how long a load process may run beyond its window: it opens some ten
// thousand connections, and servers may be slow to answer.
const loadLimit = 90 * time.Second

// load runs a plan against a server, in a separate process.
func (h *harness) load(s *proc.Server, p load.Plan) (load.Result, error) {
	p.Addr, p.Pid = s.Addr, s.Pid
	p.SizeBytes = h.o.size
	p.Spin = h.serverCPU != h.loadCPU
	var r load.Result
	plan, err := json.Marshal(p)
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(h.ctx, p.Warmup+p.Window+loadLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.builder.benchPath, "load", string(plan))
	// The runtime's preemption signals would interrupt the system calls.
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := proc.StartOn([]int{h.loadCPU}, cmd); err != nil {
		return r, err
	}
	if err := cmd.Wait(); err != nil {
		if gone := s.Err(); gone != nil {
			return r, fmt.Errorf("the server %w", gone)
		}
		return r, fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		return r, fmt.Errorf("result of the load: %w", err)
	}
	return r, nil
}

// A tally collects the rows of a section, round by round.
type tally struct {
	rows map[string]*report.Row
}

// add appends one round's figures, in the order of the columns.
func (t *tally) add(name string, ours bool, figures ...float64) {
	if t.rows == nil {
		t.rows = map[string]*report.Row{}
	}
	r := t.rows[name]
	if r == nil {
		r = &report.Row{Name: name, Ours: ours, Figures: make([][]float64, len(figures))}
		t.rows[name] = r
	}
	for i, f := range figures {
		r.Figures[i] = append(r.Figures[i], f)
	}
}

// ordered returns the rows in the order of names.
func (t *tally) ordered(names []string) []report.Row {
	var rows []report.Row
	for _, name := range names {
		if r := t.rows[name]; r != nil {
			rows = append(rows, *r)
		}
	}
	return rows
}

// errNothing is the error of a benchmark without a working server.
var errNothing = errors.New("nothing to measure")

// rounds calls measure for each name in each round. Every other round is in reverse
// order, so that the effect of a server on the next one evens out. If measure fails, the
// name takes no further part, because figures of a broken server cannot be trusted.
// rounds returns the names that succeeded in every round.
func (h *harness) rounds(benchmark string, names []string, measure func(name string, round int) error) ([]string, error) {
	names = slices.Clone(names)
	for round := range h.o.rounds {
		h.logf("%s: round %d of %d, %d to measure", benchmark, round+1, h.o.rounds, len(names))
		order := slices.Clone(names)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, name := range order {
			err := measure(name, round)
			if h.ctx.Err() != nil {
				return nil, context.Cause(h.ctx)
			}
			if err != nil {
				h.fail(benchmark, name, err)
				names = slices.DeleteFunc(names, func(n string) bool { return n == name })
			}
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: %w", benchmark, errNothing)
	}
	return names, nil
}
