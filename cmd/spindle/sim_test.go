package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/simsamples"
	"github.com/spindleloop/spindle/sim"
)

var simAgain = regexp.MustCompile(`again: spindle (sim --seed \d+ .*)`)

// TestSimFindsTheBug checks that the bug is found, printed and drawn, and found again by the
// printed command.
func TestSimFindsTheBug(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "run.svg")
	got := run(t.Context(), "sim", "--svg", svg, "counter")
	for _, want := range []string{"no replica counts more than was added does not hold", "faults that it needs", "trace:", "cannot reach", "counter: seed ", "events/s", "runs/min", "picture of seed "} {
		if !strings.Contains(got.out, want) {
			t.Errorf("it does not print %q:\n%s", want, got.out)
		}
	}
	if got.code != 1 || got.errs != "" {
		t.Errorf("exit code %d, on stderr %q", got.code, got.errs)
	}
	picture, err := os.ReadFile(svg)
	if err != nil || !strings.HasPrefix(string(picture), "<svg") || !strings.Contains(string(picture), "does not hold") {
		t.Errorf("%v, %.40q", err, picture)
	}
	command := simAgain.FindStringSubmatch(got.out)
	if command == nil {
		t.Fatalf("the command to run it again is missing:\n%s", got.out)
	}
	again := run(t.Context(), strings.Fields(command[1])...)
	story := func(out string) string {
		out, _, _ = strings.Cut(out, "\ncounter: seed ")
		return out
	}
	if again.code != 1 || story(again.out) != story(got.out) {
		t.Errorf("first\n%s\nthen\n%s", got.out, again.out)
	}
}

// TestSimRunsAFailureAgain by the printed command, for programs with failures that need nothing,
// an amount, or faults from the command line.
func TestSimRunsAFailureAgain(t *testing.T) {
	always := simsamples.Program{Name: "always", Faults: sim.Faults{PauseEvery: time.Second, Loss: 0.1}, Setup: func(w *sim.World) {
		w.Host("host").Go(func(ctx context.Context) error {
			if err := spindle.Sleep(ctx, time.Minute); err != nil {
				return err
			}
			return errors.New("always")
		})
	}}
	rare := simsamples.Program{Name: "rare", Setup: func(w *sim.World) {
		few := w.Amount("clients", 40) < 20
		w.Host("host").Go(func(context.Context) error {
			if few {
				return errors.New("too few clients")
			}
			return nil
		})
	}}
	before := simsamples.Programs
	defer func() { simsamples.Programs = before }()
	simsamples.Programs = append([]simsamples.Program{always, rare}, before...)
	for args, want := range map[string]string{
		"sim always":                                 "sim --seed 0 --only none always",
		"sim --faults pause=2s always":               "sim --seed 0 --faults pause=2s --only none always",
		"sim --runs 500 rare":                        "sim --seed 16 --only clients=1 rare",
		"sim --seed 10 --runs 30 rare":               "sim --seed 16 --only clients=1 rare",
		"sim --faults partition=1s,for=20s counter":  "",
		"sim --runs 2000 --parallel 1 lock-unfenced": "",
	} {
		first := run(t.Context(), strings.Fields(args)...)
		command := simAgain.FindStringSubmatch(first.out)
		if command == nil || want != "" && command[1] != want {
			t.Errorf("%s: want %q:\n%s%s", args, want, first.out, first.errs)
			continue
		}
		again := run(t.Context(), strings.Fields(command[1])...)
		story := func(out string) string {
			out, _, _ = strings.Cut(out, " seeds in ")
			return out[:strings.LastIndex(out, ";")]
		}
		if again.code != 1 || story(again.out) != story(first.out) {
			t.Errorf("%s\n%s\nthen\n%s%s", args, first.out, again.out, again.errs)
		}
	}
}

func TestSimOfASoundProgram(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "run.svg")
	got := run(t.Context(), "sim", "--runs", "5", "--seed", "3", "--faults", "partition=1s,loss=0.01,for=5s,lasting=500ms", "--svg", svg, "echo")
	if got.code != 0 || !strings.Contains(got.out, "echo: no run fails; 5 seeds in 8 runs") || !strings.Contains(got.out, "picture of seed 3") {
		t.Errorf("%+v", got)
	}
	if got = run(t.Context(), "sim", "--seed", "3", "--faults", "none", "--trace", "echo"); got.code != 0 || !strings.Contains(got.out, "client1 connects to server:7") || !strings.Contains(got.out, "1 seeds in 2 runs") {
		t.Errorf("%+v", got)
	}
}

func TestSimIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := run(ctx, "sim", "echo")
	if got.code != 2 || !strings.Contains(got.out, "echo: no run has failed so far; 0 seeds in 0 runs") || got.errs != "spindle sim: interrupted after 0 of 1,000 seeds\n" {
		t.Errorf("%+v", got)
	}
}

func TestSimErrors(t *testing.T) {
	for args, want := range map[string]string{
		"sim":                               "no program given (have echo, counter, ",
		"sim nothing":                       `unknown program "nothing" (have echo, counter, `,
		"sim echo lock":                     "got 2 arguments, want one program",
		"sim echo --seed 1":                 `flag --seed must come before "echo"`,
		"sim --runs 0 echo":                 "--runs 0: want at least 1",
		"sim --seed x echo":                 `invalid value "x" for flag --seed: want a number`,
		"sim --seed -1 echo":                `invalid value "-1" for flag --seed: want a number from 0`,
		"sim --faults loss echo":            `--faults: "loss": want NAME=VALUE`,
		"sim --faults loss=2 echo":          "loss=2: want a share from 0 to 1",
		"sim --faults crash=2 echo":         "crash=2: want a time such as 500ms",
		"sim --faults rain=2 echo":          `unknown fault "rain" (have dribble, `,
		"sim --faults crash=1ns echo":       "--faults: crash=1ns: more than 10,000 faults in ",
		"sim --faults for=99h,call=1s echo": "--faults: call=1s: more than 10,000 faults in 99h0m0s",
		"sim --svg /nowhere/at/all echo":    "--svg: open /nowhere/at/all",
	} {
		got := run(t.Context(), strings.Fields(args)...)
		if got.code != 2 || got.out != "" || !strings.Contains(got.errs, want) || strings.Count(got.errs, "\n") != 1 {
			t.Errorf("%s: %+v, want one line with %q", args, got, want)
		}
	}
}

func TestParseFaults(t *testing.T) {
	own := sim.Faults{For: time.Minute, Lasting: time.Second, Loss: 0.5}
	got, err := parseFaults("loss=0.1,duplicate=0.2,reorder=0.3,dribble=0.4,spurious=0.5,partition=1s,slow=1500ms,crash=2s,pause=3s,clock=4s,call=5s,lasting=6s,partition-for=7s,slow-for=8s,crash-for=9s,pause-for=10s,clock-for=11s", own)
	if want := "{1m0s 0.1 0.2 0.3 0.4 0.5 1s 1.5s 2s 3s 4s 5s 6s 7s 8s 9s 10s 11s []}"; err != nil || strings.TrimSpace(fmt.Sprint(got)) != want {
		t.Errorf("%v, %v", fmt.Sprint(got), err)
	}
	if got, err := parseFaults("none", own); err != nil || got.Loss != 0 || got.For != time.Minute {
		t.Errorf("%v, %v", got, err)
	}
}

// checkingWriter calls check before each write.
type checkingWriter struct{ check func() }

func (w checkingWriter) Write(p []byte) (int, error) {
	w.check()
	return len(p), nil
}

// TestSimWritesFilesFirst has an output that could end the command with its first line, as that of
// a pipe to head does.
func TestSimWritesFilesFirst(t *testing.T) {
	picture, page := filepath.Join(t.TempDir(), "run.svg"), filepath.Join(t.TempDir(), "run.html")
	lines := 0
	out := checkingWriter{func() {
		lines++
		for _, name := range []string{picture, page} {
			if written, err := os.ReadFile(name); len(written) == 0 {
				t.Errorf("at write %d, %s has nothing: %v", lines, name, err)
			}
		}
	}}
	if code := execute(t.Context(), []string{"sim", "--svg", picture, "--page", page, "counter"}, out, io.Discard); code != 1 || lines == 0 {
		t.Errorf("exit code %d after %d writes", code, lines)
	}
}
