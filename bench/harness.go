//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spindleloop/spindle/bench/load"
	"github.com/spindleloop/spindle/bench/proc"
	"github.com/spindleloop/spindle/internal/report"
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
	contenders map[string]*contender           // those that were looked for; nil if not installed
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
		contenders: map[string]*contender{}, logged: map[string]bool{},
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
	if need := max(o.high, o.idle+o.active, o.conns, o.slow+o.webConns, o.many/manyServers) + spare; need > limit {
		return nil, fmt.Errorf("the benchmarks need %d open files, but the limit is %d; lower --high, --idle, --many or --conns; %w", need, limit, errUsage)
	}
	if h.builder, err = newBuilder(o); err != nil {
		return nil, err
	}
	if o.spindle != "" {
		if _, err := h.builder.spindle(); err != nil {
			h.close()
			return nil, fmt.Errorf("--spindle: %w; %w", err, errUsage)
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
			return fmt.Errorf("no core %d; there are %v; %w", core, cores, errUsage)
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

// speaking returns the chosen servers that speak a protocol. It builds each of them once, and logs a line for
// each that is not installed.
func (h *harness) speaking(protocol string) (all []*contender) {
	for _, v := range variants {
		if !slices.Contains(v.speaks, protocol) || len(h.o.servers) > 0 && !slices.Contains(h.o.servers, v.name) {
			continue
		}
		c, prepared := h.contenders[v.name]
		if !prepared {
			if command, err := v.prepare(h.builder); err != nil {
				h.unprepared(v.name, err)
			} else {
				c = &contender{v, command}
			}
			h.contenders[v.name] = c
		}
		if c != nil {
			all = append(all, c)
		}
	}
	return all
}

// hasServersFor reports whether --servers includes a server for a benchmark.
func (h *harness) hasServersFor(m benchmark) bool {
	return len(m.speaks) == 0 || len(h.o.servers) == 0 || slices.ContainsFunc(variants, func(v variant) bool {
		return v.speaksAny(m.speaks) && slices.Contains(h.o.servers, v.name)
	})
}

// reference returns the name of the server that others are compared with: that of --reference if it takes
// part, otherwise the first one of Spindle.
func (h *harness) reference(names []string) string {
	if slices.Contains(names, h.o.reference) {
		return h.o.reference
	}
	for _, v := range variants {
		if v.ours && slices.Contains(names, v.name) {
			return v.name
		}
	}
	return ""
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
	text := strings.ReplaceAll(err.Error(), "\n", " | ")
	if long := len(text) - 500; long > 0 { // a traceback: its end has the reason
		text = "…" + strings.ToValidUTF8(text[long:], "")
	}
	line := fmt.Sprintf("%s: %s: %s", benchmark, name, text)
	h.failures = append(h.failures, line)
	h.logf("FAILED %s", line)
}

// start starts a contender's server.
func (h *harness) start(c *contender, protocol string, bufferBytes int) (*proc.Server, error) {
	if !c.silent {
		return proc.StartServer(h.coresOf(c, protocol), c.command(serving{listenAddr, bufferBytes, protocol}), h.environment(c))
	}
	ln, err := net.Listen("tcp", listenAddr)
	if err != nil {
		return nil, err
	}
	addr := ln.Addr().String()
	ln.Close()
	return proc.StartAt(addr, h.coresOf(c, protocol), c.command(serving{addr, bufferBytes, protocol}), h.environment(c))
}

// coresOf returns the cores that a contender runs on.
func (h *harness) coresOf(c *contender, protocol string) []int {
	if c.cores > 1 || slices.Contains(pythonOnTwo, protocol) {
		return []int{h.serverCPU, h.loadCPU} // shared with the load generator
	}
	return []int{h.serverCPU}
}

func (h *harness) environment(c *contender) []string {
	switch {
	case c.cores > 1:
		return []string{"GOMAXPROCS=" + strconv.Itoa(c.cores)}
	case c.goRuntime && h.o.gomaxprocs > 0:
		return []string{"GOMAXPROCS=" + strconv.Itoa(h.o.gomaxprocs)}
	}
	return nil
}

// loadLimit is how long a load process may run beyond its window: it opens some ten
// thousand connections, and servers may be slow to answer.
const loadLimit = 90 * time.Second

// loadCores returns the cores for the process of a plan. Where several share the machine, they have all of it.
func (h *harness) loadCores(p load.Plan) []int {
	if p.Rest > 0 {
		return []int{h.serverCPU, h.loadCPU}
	}
	return []int{h.loadCPU}
}

// load runs a plan against a server, in a separate process.
func (h *harness) load(s *proc.Server, p load.Plan) (load.Result, error) {
	p.Addr, p.Pid = s.Addr, s.Pid
	p.SizeBytes = cmp.Or(p.SizeBytes, h.o.size)
	p.Spin = h.serverCPU != h.loadCPU && p.Rest == 0
	var r load.Result
	plan, err := json.Marshal(p)
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(h.ctx, p.Warmup+p.Window+p.Rest+loadLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.builder.benchPath, "load", string(plan))
	// The runtime's preemption signals would interrupt the system calls.
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := proc.StartOn(h.loadCores(p), cmd); err != nil {
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

// errNothing is the error of a benchmark without a working server.
var errNothing = errors.New("nothing to measure")

// rounds measures each name in each round, as report.Interleave does. If a measurement fails, that is recorded
// as a failure.
func (h *harness) rounds(benchmark string, names []string, measure func(name string, round int) error) ([]string, error) {
	logged := -1
	names, err := report.Interleave(h.o.rounds, names, func(name string, round int) error {
		if round > logged {
			logged = round
			h.logf("%s: round %d of %d", benchmark, round+1, h.o.rounds)
		}
		return measure(name, round)
	}, func(name string, err error) error {
		if h.ctx.Err() != nil {
			return context.Cause(h.ctx)
		}
		h.fail(benchmark, name, err)
		return nil
	})
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%s: %w", benchmark, errNothing)
	}
	return names, err
}
