//go:build linux

package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spindleloop/spindle/bench/load"
)

// listenAddr is the address that every server listens on.
const listenAddr = "127.0.0.1:0"

// options is the command line.
type options struct {
	benchmarks []string
	servers    []string // empty: all
	rounds     int
	window     time.Duration
	warmup     time.Duration

	conns     int
	webConns  int
	slow      int // for slowloris
	active    int // for idle10k
	idle      int // for idle10k
	size      int
	depth     int
	low, high int // for memory
	many      int // for many
	rest      time.Duration

	gomaxprocs int
	serverCPU  int // -1: the first core this process may use
	loadCPU    int // -1: the second
	reference  string
	spindle    string
	before     string
	portable   bool
	python     string
	profiles   string
	out        string
	smoke      bool
	list       bool
}

// smoke holds the values that --smoke uses instead of the defaults. They exercise
// everything, but the figures are meaningless.
var smoke = map[string]string{
	"rounds": "1", "window": "200ms", "warmup": "50ms", "conns": "20",
	"active": "20", "idle": "300", "slow": "300", "web-conns": "20", "low": "100", "high": "500",
	"many": "600", "rest": "100ms",
}

func optionFlags(o *options) (fs *flag.FlagSet, servers *string) {
	fs = newFlagSet("bench")
	servers = fs.String("servers", "", "comma-separated `names` of the servers to run (default all)")
	fs.IntVar(&o.rounds, "rounds", 9, "paired rounds")
	fs.DurationVar(&o.window, "window", 1500*time.Millisecond, "measured time of one server in one round")
	fs.DurationVar(&o.warmup, "warmup", 300*time.Millisecond, "load before each window")
	fs.IntVar(&o.conns, "conns", 200, "connections of echo and pipeline")
	fs.IntVar(&o.webConns, "web-conns", 64, "connections of http and http-pipeline")
	fs.IntVar(&o.slow, "slow", 5000, "slow connections of slowloris")
	fs.IntVar(&o.size, "size", 64, "bytes of a message, at least 16")
	fs.IntVar(&o.depth, "depth", 16, "messages in flight on a connection in pipeline, at most 256")
	fs.IntVar(&o.low, "low", 3000, "connections at the lower point of memory")
	fs.IntVar(&o.high, "high", 15000, "connections at the upper point of memory")
	fs.IntVar(&o.active, "active", 100, "busy connections of idle10k")
	fs.IntVar(&o.idle, "idle", 10000, "idle connections of idle10k")
	fs.IntVar(&o.many, "many", 50_000, "connections of many")
	fs.DurationVar(&o.rest, "rest", 10*time.Second, "how long the connections of many are idle")
	fs.IntVar(&o.gomaxprocs, "gomaxprocs", 1, "GOMAXPROCS of servers written in Go; 0 leaves it to them")
	fs.IntVar(&o.serverCPU, "server-cpu", -1, "`core` of the servers (default the first)")
	fs.IntVar(&o.loadCPU, "load-cpu", -1, "`core` of the load generator (default the second)")
	fs.StringVar(&o.reference, "reference", "", "the `server` to compare the others with (default the first of Spindle in a benchmark)")
	fs.StringVar(&o.before, "before", "", "`directory` of a checkout of an older version, to compare a change with (servers NAME-before)")
	fs.BoolVar(&o.portable, "portable", false, "also measure Spindle with portable switching of tasks (servers NAME-portable)")
	fs.StringVar(&o.python, "python", "", "`path` of the Python interpreter (default python3, and /usr/bin/python3 first if no benchmark is of Python)")
	fs.StringVar(&o.profiles, "profiles", "", "`directory` for CPU profiles of servers written in Go")
	fs.StringVar(&o.spindle, "spindle", "", "`path` of a built spindle command (default: build ../cmd/spindle)")
	fs.StringVar(&o.out, "out", "results", "`directory` for results.md, results.svg and results.json")
	fs.BoolVar(&o.smoke, "smoke", false, "run everything once, very briefly: checks that it works, not how fast")
	fs.BoolVar(&o.list, "list", false, "list benchmarks and servers")
	// Without this, --help would print the default -1, which means nothing to a reader.
	for _, name := range []string{"server-cpu", "load-cpu"} {
		fs.Lookup(name).DefValue = "0"
	}
	return fs, servers
}

func parseOptions(args []string) (options, error) {
	var o options
	fs, servers := optionFlags(&o)
	if err := parse(fs, args); err != nil {
		return o, err
	}
	if o.smoke {
		given := map[string]bool{}
		fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
		for name, value := range smoke {
			if !given[name] {
				if err := fs.Set(name, value); err != nil {
					return o, err
				}
			}
		}
	}
	o.benchmarks = fs.Args()
	for _, name := range o.benchmarks {
		if !known(name, benchmarkNames()) {
			return o, fmt.Errorf("no benchmark %q; there are %s; %w", name, strings.Join(benchmarkNames(), ", "), errUsage)
		}
	}
	if *servers != "" {
		o.servers = strings.Split(*servers, ",")
	}
	for _, name := range o.servers {
		if !known(name, variantNames()) {
			return o, fmt.Errorf("no server %q; there are %s; %w", name, strings.Join(variantNames(), ", "), errUsage)
		}
	}
	return o, o.check()
}

func (o *options) check() error {
	rules := []struct {
		broken bool
		rule   string
	}{
		{o.rounds < 1, "--rounds must be at least 1"},
		{o.window < 10*time.Millisecond, "--window must be at least 10ms"},
		{o.warmup < 0, "--warmup must not be negative"},
		{o.conns < 1, "--conns must be at least 1"},
		{o.webConns < 1, "--web-conns must be at least 1"},
		{o.slow < 1, "--slow must be at least 1"},
		{o.active < 1, "--active must be at least 1"},
		{o.idle < 1, "--idle must be at least 1"},
		{o.size < 16 || o.size > 65536, "--size must be between 16 and 65536"},
		{o.depth < 1 || o.depth > 256, "--depth must be between 1 and 256"},
		{o.low < 1 || o.high <= o.low, "--low must be at least 1 and --high above it"},
		{o.gomaxprocs < 0, "--gomaxprocs must not be negative"},
		{o.many < 2*manyServers, "--many must be at least 6"},
		{o.reference != "" && !known(o.reference, variantNames()), fmt.Sprintf("--reference: no server %q", o.reference)},
	}
	for _, r := range rules {
		if r.broken {
			return fmt.Errorf("%s; %w", r.rule, errUsage)
		}
	}
	return nil
}

// messageBytes returns the size of the messages of a plan, or of the bodies of its answers.
func (o *options) messageBytes(p load.Plan) int { return cmp.Or(len(p.Body), p.SizeBytes, o.size) }

// pythons returns the interpreters to look for modules in. Packages of a distribution, such as uvloop, are
// installed for the system's interpreter. All servers and loops of the Python benchmarks must have the same one.
func (o *options) pythons() []string {
	if o.python != "" {
		return []string{o.python}
	}
	if slices.ContainsFunc(benchmarks, func(m benchmark) bool { return m.python() && m.chosen(o.benchmarks) }) {
		return []string{"python3"}
	}
	return []string{"/usr/bin/python3", "python3"}
}

// newFlagSet returns a flag set that prints nothing itself, so that a mistake prints one
// line and not a page.
func newFlagSet(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return fs
}

func parse(fs *flag.FlagSet, args []string) error {
	err := fs.Parse(args)
	if err == nil || err == flag.ErrHelp {
		return err
	}
	return fmt.Errorf("%w; %w", err, errUsage)
}

func known(name string, names []string) bool { return slices.Contains(names, name) }

func variantNames() []string {
	var names []string
	for _, v := range variants {
		names = append(names, v.name)
	}
	return names
}
