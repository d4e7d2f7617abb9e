//go:build linux

// Command bench compares Spindle with its peers, side by side on this machine.
//
//	cd bench && go run . [flags] [benchmarks...]
//
// Servers are pinned to one core and the load generator to another. All servers of a
// benchmark run at once, idle except for the one that is measured, and rounds are
// interleaved. A ratio is always of two figures of the same round. So ratios are stable
// on a noisy machine, although single figures are not.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spindleloop/spindle/bench/load"
	"github.com/spindleloop/spindle/bench/peers"
	"github.com/spindleloop/spindle/bench/proc"
	"github.com/spindleloop/spindle/internal/report"
)

func main() {
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// errUsage is wrapped by errors in the command line.
var errUsage = errors.New("see --help")

// execute runs the command line and returns the exit code.
func execute(args []string, stdout, stderr io.Writer) int {
	err := dispatch(args, stdout, stderr)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "bench: %v\n", err)
	return exitError
}

func dispatch(args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "serve":
			return serve(args[1:], stdout)
		case "load":
			return generate(args[1:], stdout)
		case "chart":
			return chart(args[1:], stdout)
		}
	}
	o, err := parseOptions(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, helpText())
		return nil
	case err != nil:
		return err
	}
	if o.list {
		fmt.Fprint(stdout, listText())
		return nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return compare(ctx, o, stdout, stderr)
}

// chart draws recorded tables from a file.
func chart(args []string, stdout io.Writer) error {
	if len(args) < 2 {
		return fmt.Errorf("chart needs a file and titles of tables in it; %w", errUsage)
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	svg, err := report.ChartOf(string(text), args[1:]...)
	if err != nil {
		return err
	}
	_, err = io.WriteString(stdout, svg)
	return err
}

// serve runs one of the peers written in Go. The harness starts it as a child process.
func serve(args []string, stdout io.Writer) error {
	fs := newFlagSet("serve")
	addr := fs.String("addr", listenAddr, "")
	buffer := fs.Int("buffer", 4096, "")
	tls := fs.Bool("tls", false, "")
	http2 := fs.Bool("http2", false, "")
	profiles := fs.String("profiles", "", "")
	if err := parse(fs, args); err != nil {
		return err
	}
	if fs.NArg() != 1 || !known(fs.Arg(0), peers.Names()) {
		return fmt.Errorf("serve needs one of %v; %w", peers.Names(), errUsage)
	}
	if *buffer < 1 {
		return fmt.Errorf("--buffer must be at least 1; %w", errUsage)
	}
	if _, err := proc.RaiseFileLimit(); err != nil {
		return err
	}
	if err := proc.Profile(*profiles, fs.Arg(0)); err != nil {
		return err
	}
	return peers.Serve(fs.Arg(0), peers.Options{Addr: *addr, BufferBytes: *buffer, TLS: *tls, HTTP2: *http2}, stdout)
}

// generate runs one load plan, given as JSON. The harness starts it as a child process,
// so that the harness's garbage and goroutines do not disturb the load.
func generate(args []string, stdout io.Writer) error {
	var plan load.Plan
	if len(args) != 1 {
		return fmt.Errorf("load needs one plan in JSON; %w", errUsage)
	}
	if err := json.Unmarshal([]byte(args[0]), &plan); err != nil {
		return fmt.Errorf("load: %w; %w", err, errUsage)
	}
	if _, err := proc.RaiseFileLimit(); err != nil {
		return err
	}
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	result, err := load.Run(plan)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(result)
}
