//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/spindleloop/spindle/bench/proc"
	"github.com/spindleloop/spindle/internal/report"
)

// A program prints one flat JSON object of figures.
type program struct {
	name    string
	ours    bool
	prepare func(*builder) (argv []string, err error)
	// effort returns the arguments that say how much to measure.
	effort   func(options) []string
	twoCores bool // it runs on both
}

var programs = []program{
	{name: "spindle", ours: true, effort: spindleEffort, prepare: func(b *builder) ([]string, error) {
		binary, err := b.spindle()
		return []string{binary, "bench"}, err
	}},
	{name: "spindle-portable", ours: true, effort: spindleEffort, prepare: portableSpindle},
	{name: "spindle-tasks", ours: true, effort: taskEffort, prepare: func(b *builder) ([]string, error) {
		binary, err := b.spindle()
		return []string{binary, "bench"}, err
	}},
	{name: "spindle-tasks-portable", ours: true, effort: taskEffort, prepare: portableSpindle},
	{name: "libuv", effort: peerEffort, prepare: func(b *builder) ([]string, error) {
		binary, err := b.compileC("uvtimers.c", "-luv")
		return []string{binary}, err
	}},
	{name: "node", effort: peerEffort, prepare: func(b *builder) ([]string, error) {
		node, err := b.node()
		if err != nil {
			return nil, err
		}
		script, err := b.source("node/turns.js")
		return []string{node, script}, err
	}},
	{name: "uvloop", effort: peerEffort, prepare: pythonTurns("uvloop")},
	{name: "asyncio", effort: peerEffort, prepare: pythonTurns("asyncio")},
	{name: "spindle.sim", ours: true, effort: worldsEffort, prepare: worlds("spindle")},
	{name: "simloop", effort: worldsEffort, prepare: worlds("simloop")},
	{name: "spindle.sim processes", ours: true, effort: worldsEffort, prepare: worlds("processes"), twoCores: true},
}

// worlds returns the command of python/bench/worlds.py.
func worlds(what string) func(b *builder) ([]string, error) {
	return func(b *builder) ([]string, error) {
		module := what
		if what == "processes" {
			module = "spindle"
		}
		python, err := b.python(module)
		return append(b.inApps(python), "worlds.py", what), err
	}
}

func worldsEffort(o options) []string {
	if o.smoke {
		return []string{"60"}
	}
	return []string{"1500"}
}

// spindleEffort selects only the figures that the peers print too.
func spindleEffort(o options) []string {
	args := []string{"--json"}
	if o.smoke {
		args = append(args, "--quick")
	}
	return append(args, "callbacks", "turns", "timers")
}

// taskEffort selects the figures of tasks.
func taskEffort(o options) []string {
	args := []string{"--json"}
	if o.smoke {
		args = append(args, "--quick")
	}
	return append(args, "switch", "spawn", "gather", "channel")
}

// portableSpindle builds the spindle command with portable switching.
func portableSpindle(b *builder) ([]string, error) {
	from, err := b.other("portable")
	if err != nil {
		return nil, err
	}
	binary, err := from.spindle()
	return []string{binary, "bench"}, err
}

// peerEffort returns the seconds of each figure and the number of timers that fire. The
// number is that of the spindle command, because a heap gets slower as it grows. It is
// so large that the longest delay, 49 ms, does not determine the figure.
func peerEffort(o options) []string {
	if o.smoke {
		return []string{"0.05", "100000"}
	}
	return []string{strconv.FormatFloat(o.window.Seconds()/3, 'f', 3, 64), "1000000"}
}

func pythonTurns(loop string) func(*builder) ([]string, error) {
	return func(b *builder) ([]string, error) {
		python, err := b.python(loop)
		if err != nil {
			return nil, err
		}
		script, err := b.source("python/turns.py")
		return []string{python, script, loop}, err
	}
}

// A source is the origin of a row of a comparison: a key in the figures of a program.
type source struct{ row, program, key string }

// A comparison is one section made from the figures of programs.
type comparison struct {
	title, note, column string
	sources             []source
	nanoseconds         bool // the figures are durations of one operation
}

var callbackComparisons = []comparison{
	{
		"Callbacks", "A thousand callbacks queued in a turn of the loop, and run.", "callbacks / s",
		[]source{
			{"spindle", "spindle", "callbacks_per_s"},
			{"spindle portable", "spindle-portable", "callbacks_per_s"},
			{"node setImmediate", "node", "callbacks_per_s"},
			{"node nextTick", "node", "nexttick_per_s"},
			{"uvloop", "uvloop", "callbacks_per_s"},
			{"asyncio", "asyncio", "callbacks_per_s"},
		}, false,
	},
	{
		"Turns", "One callback that queues itself again. Spindle asks the kernel for I/O after 61 to 244 callbacks, the others in each turn.", "turns / s",
		[]source{
			{"spindle", "spindle", "turns_per_s"},
			{"spindle portable", "spindle-portable", "turns_per_s"},
			{"node setImmediate", "node", "turns_per_s"},
			{"uvloop", "uvloop", "turns_per_s"},
			{"asyncio", "asyncio", "turns_per_s"},
		}, false,
	},
}

var timerComparisons = []comparison{
	{"Timers added and cancelled", "A thousand timers added in a turn of the loop, and then cancelled.", "timers / s", timerSources("timer_cancel_per_s"), false},
	{"Timers added and fired", "A million timers with random delays of 0 to 49 ms.", "timers / s", timerSources("timer_fire_per_s"), false},
}

func timerSources(key string) []source {
	return []source{
		{"spindle", "spindle", key},
		{"spindle portable", "spindle-portable", key},
		{"go AfterFunc", "spindle", "go_" + key}, // the spindle command measures it too
		{"libuv", "libuv", key},
		{"node", "node", key},
		{"uvloop", "uvloop", key},
		{"asyncio", "asyncio", key},
	}
}

var worldComparisons = []comparison{
	{"Worlds", "An echo server and three clients of ten lines each: how many a minute of CPU has.", "worlds / minute of CPU", []source{
		{"spindle", "spindle.sim", "worlds_per_cpu_minute"}, {"simloop", "simloop", "worlds_per_cpu_minute"},
	}, false},
	{"Worlds in two processes", "The same seeds in one process, with --processes 2, and in two commands that know nothing of each other.", "seeds / s", []source{
		{"spindle", "spindle.sim processes", "several_per_s"}, {"one process", "spindle.sim processes", "one_per_s"}, {"two commands", "spindle.sim processes", "apart_per_s"},
	}, false},
}

func runWorlds(h *harness) ([]report.Section, error) {
	return h.comparePrograms("worlds", worldComparisons)
}

var taskComparisons = []comparison{
	{"Switches", "Two tasks that yield to each other, beside a bare iter.Pull there and back.", "switches / s", taskSources("switch_ns", "iter.Pull", "pull_ns"), true},
	{"Tasks started", "A task started and finished, beside a goroutine.", "tasks / s", taskSources("spawn_ns", "goroutine", "goroutine_ns"), true},
	{"Tasks gathered", "Ten tasks gathered at a time, beside goroutines and a WaitGroup.", "tasks / s", taskSources("gather_ns", "goroutines", "go_gather_ns"), true},
	{"Channels", "A value there and one back, unbuffered, beside Go's channels.", "round trips / s", taskSources("channel_ns", "go", "go_channel_ns"), true},
	{"Buffered channels", "A value through a buffer of 64, beside Go's channels.", "values / s", taskSources("channel_buffered_ns", "go", "go_channel_buffered_ns"), true},
}

// taskSources compares a figure in both ways of switching with its counterpart in Go.
func taskSources(key, counterpart, itsKey string) []source {
	return []source{
		{"spindle", "spindle-tasks", key},
		{"spindle portable", "spindle-tasks-portable", key},
		{counterpart, "spindle-tasks", itsKey},
	}
}

func runTasks(h *harness) ([]report.Section, error) {
	return h.comparePrograms("tasks", taskComparisons)
}

func runCallbacks(h *harness) ([]report.Section, error) {
	return h.comparePrograms("callbacks", callbackComparisons)
}

func runTimers(h *harness) ([]report.Section, error) {
	return h.comparePrograms("timers", timerComparisons)
}

// comparePrograms runs every program that the comparisons use, once per round, on the
// servers' core.
func (h *harness) comparePrograms(name string, comparisons []comparison) ([]report.Section, error) {
	var names []string
	commands, twoCores := map[string][]string{}, map[string]bool{}
	for _, p := range programs {
		if !slices.ContainsFunc(comparisons, func(c comparison) bool { return c.uses(p.name) }) || !h.chosen(p) {
			continue
		}
		argv, err := p.prepare(h.builder)
		if err != nil {
			h.unprepared(p.name, err)
			continue
		}
		if p.twoCores {
			twoCores[p.name] = true
		}
		names = append(names, p.name)
		commands[p.name] = append(argv, p.effort(h.o)...)
	}
	names, err := h.rounds(name, names, func(program string, round int) error {
		// Two benchmarks use the same programs, which print all their figures
		// at once. Run each only once.
		if round < len(h.printed[program]) {
			return nil
		}
		figures, err := h.figures(commands[program], twoCores[program])
		if err == nil {
			h.printed[program] = append(h.printed[program], figures)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	tallies := make([]report.Tally, len(comparisons))
	for _, program := range names {
		for _, figures := range h.printed[program] {
			if err := fill(tallies, comparisons, program, figures); err != nil {
				return nil, fmt.Errorf("%s: %w", program, err)
			}
		}
	}
	var sections []report.Section
	for i, c := range comparisons {
		var rows []string
		for _, s := range c.sources {
			rows = append(rows, s.row)
		}
		if len(tallies[i].Rows(rows)) == 0 {
			continue
		}
		sections = append(sections, report.Section{
			Name: name, Title: c.title, Note: c.note,
			Columns:   []report.Column{{Name: c.column, Unit: report.PerSecond}},
			Rows:      tallies[i].Rows(rows),
			Reference: "spindle",
		})
	}
	return sections, nil
}

func (c comparison) uses(program string) bool {
	return slices.ContainsFunc(c.sources, func(s source) bool { return s.program == program })
}

// chosen reports whether --servers includes p. Any server of Spindle includes the
// spindle program.
func (h *harness) chosen(p program) bool {
	if len(h.o.servers) == 0 {
		return true
	}
	return slices.ContainsFunc(variants, func(v variant) bool {
		return (v.name == p.name || v.ours && p.ours) && slices.Contains(h.o.servers, v.name)
	})
}

// programLimit is the time limit of one run of a program.
const programLimit = 5 * time.Minute

// figures runs a program and parses its output.
func (h *harness) figures(argv []string, twoCores bool) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(h.ctx, programLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cores := []int{h.serverCPU}
	if twoCores {
		cores = append(cores, h.loadCPU)
	}
	if err := proc.StartOn(cores, cmd); err != nil {
		return nil, err
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return parseFigures(stdout.Bytes())
}

// parseFigures reads one flat JSON object of numbers.
func parseFigures(data []byte) (map[string]float64, error) {
	var figures map[string]float64
	if err := json.Unmarshal(data, &figures); err != nil {
		return nil, fmt.Errorf("figures: %w", err)
	}
	if len(figures) == 0 {
		return nil, errors.New("figures: none")
	}
	return figures, nil
}

// fill adds a program's figures to the rows that come from it.
func fill(tallies []report.Tally, comparisons []comparison, program string, figures map[string]float64) error {
	for i, c := range comparisons {
		for _, s := range c.sources {
			if s.program != program {
				continue
			}
			v, ok := figures[s.key]
			if !ok || v <= 0 {
				return fmt.Errorf("figures: no %s", s.key)
			}
			if c.nanoseconds {
				v = 1e9 / v
			}
			tallies[i].Add(s.row, s.row == "spindle", v)
		}
	}
	return nil
}
