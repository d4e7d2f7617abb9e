package sim_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

// impatient asks until it has an answer. The server counts each question.
func impatient(w *sim.World) {
	asked := 0
	server, client := w.Host("server"), w.Host("client")
	w.Faults = sim.Faults{For: time.Duration(w.Amount("length", 20_000)) * time.Millisecond, PartitionEvery: 2 * time.Second, PauseEvery: 3 * time.Second, Lasting: time.Second}
	server.Serve(func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", ":80")
		if err != nil {
			return err
		}
		return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
			if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "GET /count HTTP/1.1\r\n" {
				return err
			}
			asked++
			_, err := fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\ncounted")
			return err
		})
	})
	ask := func(ctx context.Context) error {
		return spindle.FailAfter(ctx, 500*time.Millisecond, func(ctx context.Context) error {
			c, err := stream.Dial(ctx, "tcp", "server:80")
			if err != nil {
				return err
			}
			defer c.Close()
			fmt.Fprint(c, "GET /count HTTP/1.1\r\n\r\n")
			_, err = bufio.NewReader(c).ReadString('\n')
			return err
		})
	}
	customer := func(ctx context.Context) error {
		for n := range w.Amount("questions", 10) {
			for ask(ctx) != nil {
				if err := spindle.Sleep(ctx, 50*time.Millisecond); err != nil {
					return err
				}
			}
			if asked != n+1 {
				return errors.New("counted twice")
			}
			if err := spindle.Sleep(ctx, time.Second); err != nil {
				return err
			}
		}
		return nil
	}
	client.Go(func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "customer"}, customer)
			return nil
		})
	})
}

func TestPageOfAFailure(t *testing.T) {
	f := sim.Search{Runs: 200}.Find(t.Context(), impatient)
	if f == nil {
		t.Fatal("not found")
	}
	before := f.World.Hash()
	var b strings.Builder
	if err := f.Page(&b, "run it"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprint("seed ", f.World.Seed()), "counted twice", "GET /count", "200 OK counted", `"Task":"customer"`, `"Repeat":"run it"`, `"Nearest":"without “`,
		"questions=", "length=",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if f.World.Hash() != before {
		t.Error("the page has changed the failure")
	}
}

// TestShortestFailure: further seeds are tried for a failure with fewer events, and the length of the
// run is shrunk.
func TestShortestFailure(t *testing.T) {
	short.Computes(t)
	first := sim.Search{Runs: 300}.Find(t.Context(), impatient)
	shortest := sim.Search{Runs: 300, Shortest: 100}.Find(t.Context(), impatient)
	if first == nil || shortest == nil {
		t.Fatal("not found")
	}
	if a, b := len(first.World.Trace()), len(shortest.World.Trace()); b >= a || shortest.Runs <= first.Runs {
		t.Errorf("the first has %d events, the shortest %d, after %d and %d seeds", a, b, first.Runs, shortest.Runs)
	}
	length := ""
	for _, part := range shortest.Parts() {
		if n, ok := strings.CutPrefix(part, "length="); ok {
			length = n
		}
	}
	if length == "" || len(length) > 4 { // of 20,000
		t.Errorf("the length is %q ms", length)
	}
}
