package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spindleloop/spindle/cmd/spindle/numbers"
	"github.com/spindleloop/spindle/internal/simsamples"
	"github.com/spindleloop/spindle/sim"
)

func simHelp() string {
	var b strings.Builder
	b.WriteString(`
spindle sim [flags] PROGRAM runs a program on several hosts in a simulated world, with
virtual time and an unreliable network. A seed determines everything. It tries one seed
after the other until a check fails. Then it shrinks the failure, prints it, and prints
the command that runs it again.

  spindle sim echo                           tries 1,000 seeds
  spindle sim --page run.html counter        writes a page about the run that fails
  spindle sim --shortest 200 counter         tries 200 more seeds, for the shortest failure
  spindle sim --seed 7 --svg run.svg lock    draws seed 7, even if it does not fail
  spindle sim --inspect counter              shows the run that fails on a page
  spindle sim --faults crash=3s,loss=0.05 echo

The exit code is 0 if no run failed, 1 if one failed, and 2 for an error in the command
line or if the search was interrupted. Programs:

`)
	for _, p := range simsamples.Programs {
		fmt.Fprintf(&b, "  %-15s %s\n", p.Name, p.Summary)
	}
	b.WriteString(faultsHelp)
	return b.String()
}

// search is one run of the command.
type search struct {
	program simsamples.Program
	faults  sim.Faults
	sim.Search
	svg     string
	page    string
	traced  bool
	inspect bool

	began     time.Time
	runs      int // worlds, including those for shrinking
	steps     uint64
	virtual   time.Duration
	sampled   *sim.World // the first, for the picture
	out       io.Writer
	faultList string
}

func runSim(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	seed := flags.Uint64("seed", 0, "first seed `N`; without --runs the only one")
	runs := flags.Int("runs", 1000, "number `N` of seeds to try")
	faults := flags.String("faults", "", "`LIST` of faults instead of the program's own, or \"none\"")
	only := flags.String("only", "", "`LIST` of the parts of a shrunk failure, to run it again")
	parallel := flags.Int("parallel", 0, "run `N` worlds at the same time (0: one for each processor)")
	svg := flags.String("svg", "", "`FILE` for a picture of the run that fails, or of the first")
	page := flags.String("page", "", "`FILE` for a page in HTML about the run that fails")
	shortest := flags.Int("shortest", 0, "try `N` more seeds after the first failure, for one with fewer events")
	traced := flags.Bool("trace", false, "print the trace of the first run")
	inspected := flags.Bool("inspect", false, "serve a page that shows the run that fails, or the first, at any virtual time")
	if err := parse(flags, simHelp(), args, out); err != nil {
		return err
	}
	s := &search{svg: *svg, page: *page, traced: *traced, inspect: *inspected, out: out, faultList: *faults}
	s.First, s.Runs, s.Parallel, s.Shortest = *seed, *runs, *parallel, *shortest
	if isSet(flags, "seed") && !isSet(flags, "runs") {
		s.Runs = 1
	}
	if *only != "" {
		s.Only = strings.Split(*only, ",")
	}
	if err := s.choose(flags.Args(), *runs); err != nil {
		return err
	}
	return s.run(ctx, errs)
}

func isSet(flags *flag.FlagSet, name string) (set bool) {
	flags.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// choose checks the arguments and looks up the program.
func (s *search) choose(args []string, runs int) error {
	var names []string
	for _, p := range simsamples.Programs {
		names = append(names, p.Name)
	}
	have := "(have " + strings.Join(names, ", ") + ")"
	switch {
	case len(args) == 0:
		return fmt.Errorf("no program given %s", have)
	case len(args) > 1:
		return fmt.Errorf("got %d arguments, want one program %s", len(args), have)
	case s.Shortest < 0:
		return fmt.Errorf("--shortest %d: want 0 or more", s.Shortest)
	case s.Parallel < 0:
		return fmt.Errorf("--parallel %d: want 0 or more", s.Parallel)
	case runs < 1:
		return fmt.Errorf("--runs %d: want at least 1", runs)
	}
	var ok bool
	if s.program, ok = simsamples.Find(args[0]); !ok {
		return fmt.Errorf("unknown program %q %s", args[0], have)
	}
	s.faults = s.program.Faults
	if s.faultList != "" {
		var err error
		if s.faults, err = parseFaults(s.faultList, s.faults); err != nil {
			return fmt.Errorf("--faults: %w", err)
		}
	}
	return nil
}

func (s *search) run(ctx context.Context, errs io.Writer) error {
	picture := io.Writer(nil)
	if s.svg != "" { // before the search, so that a wrong name fails at once
		f, err := os.Create(s.svg)
		if err != nil {
			return fmt.Errorf("--svg: %w", err)
		}
		picture = f
		defer f.Close()
	}
	bar := newProgress(errs, s.Runs)
	bar.begin(s.program.Name, s.Runs)
	seen := make(map[uint64]bool)
	s.Each = func(w *sim.World) {
		s.runs++
		s.steps += w.Steps()
		s.virtual += w.Now()
		if s.sampled == nil {
			s.sampled = w
		}
		if !seen[w.Seed()] { // not a repeated run of the same seed
			seen[w.Seed()] = true
			bar.step()
		}
	}
	s.began = time.Now()
	failure := s.Find(ctx, s.program.World(s.faults))
	took := time.Since(s.began)
	bar.erase()
	if failure != nil && errors.Is(failure.Err, sim.ErrUnknownPart) {
		return fmt.Errorf("--only: %w", failure.Err)
	}
	if failure != nil {
		s.sampled = failure.World
	}
	files, err := s.writeFiles(picture, failure) // first: what reads the output may end, as head does, and with it the command
	if s.traced && failure == nil && s.sampled != nil {
		fmt.Fprint(s.out, s.sampled.Trace())
	}
	if failure != nil {
		fmt.Fprintln(s.out, failure.Story(s.again(failure)))
	}
	s.summary(failure, len(seen), took)
	fmt.Fprint(s.out, files)
	if err != nil {
		return err
	}
	if s.inspect && s.sampled != nil {
		if err := s.serveRecording(ctx); err != nil {
			return fmt.Errorf("--inspect: %w", err)
		}
	}
	switch {
	case failure != nil:
		return errFound
	case len(seen) < s.Runs:
		return fmt.Errorf("interrupted after %s of %s seeds", numbers.Thousands(len(seen)), numbers.Thousands(s.Runs))
	}
	return nil
}

// again returns the command that runs a failure again.
func (s *search) again(f *sim.Failure) string {
	faults := ""
	if s.faultList != "" {
		faults = " --faults " + s.faultList
	}
	only := cmp.Or(strings.Join(f.Parts(), ","), "none") // without --only it would have all faults
	return fmt.Sprintf("spindle sim --seed %d%s --only %s %s", f.World.Seed(), faults, only, s.program.Name)
}

func (s *search) summary(f *sim.Failure, seeds int, took time.Duration) {
	outcome := "no run fails"
	if seeds < s.Runs {
		outcome = "no run has failed so far"
	}
	if f != nil {
		seeds = f.Runs // in parallel, some seeds after it were tried too
		outcome = fmt.Sprintf("seed %d fails", f.World.Seed())
	}
	fmt.Fprintf(s.out, "%s: %s; %s seeds in %s runs\n", s.program.Name, outcome, numbers.Thousands(seeds), numbers.Thousands(s.runs))
	seconds := took.Seconds()
	fmt.Fprintf(s.out, "%s events, %v of virtual time in %v: %s events/s, %s runs/min\n", numbers.Thousands(s.steps),
		s.virtual.Round(time.Millisecond), took.Round(time.Millisecond), numbers.Thousands(uint64(float64(s.steps)/seconds)), numbers.Thousands(uint64(60*float64(s.runs)/seconds)))
}

// writeFiles writes the picture and the page that were asked for, and returns lines that say where they are.
func (s *search) writeFiles(picture io.Writer, f *sim.Failure) (lines string, err error) {
	if picture != nil && s.sampled != nil {
		if err := s.draw(picture, f); err != nil {
			return "", fmt.Errorf("--svg: %w", err)
		}
		lines = fmt.Sprintf("picture of seed %d: %s\n", s.sampled.Seed(), s.svg)
	}
	if s.page != "" && f != nil {
		if err := s.writePage(f); err != nil {
			return lines, fmt.Errorf("--page: %w", err)
		}
		lines += fmt.Sprintf("page of seed %d: %s\n", f.World.Seed(), s.page)
	}
	return lines, nil
}

func (s *search) writePage(f *sim.Failure) error {
	out, err := os.Create(s.page)
	if err != nil {
		return err
	}
	return errors.Join(f.Page(out, s.again(f)), out.Close())
}

// maxDrawn is how many events a picture has; more are not readable.
const maxDrawn = 100

// draw draws the end of a run that failed, or the beginning of one that did not.
func (s *search) draw(out io.Writer, f *sim.Failure) error {
	trace := s.sampled.Trace()
	title, ending := fmt.Sprintf("%s, seed %d", s.program.Name, s.sampled.Seed()), ""
	var hosts []string
	for _, h := range s.sampled.Hosts() {
		hosts = append(hosts, h.Name())
	}
	if f != nil {
		ending = f.Err.Error()
	}
	if all := len(trace); all > maxDrawn {
		if f != nil {
			trace = trace[all-maxDrawn:]
			title += fmt.Sprintf(": the last %d of %s events", maxDrawn, numbers.Thousands(all))
		} else {
			trace = trace[:maxDrawn]
			title += fmt.Sprintf(": the first %d of %s events", maxDrawn, numbers.Thousands(all))
		}
	}
	return trace.Draw(out, title, ending, hosts...)
}
