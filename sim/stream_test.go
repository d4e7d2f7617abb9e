package sim_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

// serveLines answers every line in capitals, from tasks.
func serveLines(ctx context.Context) error {
	ln, err := stream.Listen(ctx, "tcp", ":25")
	for ; err != nil; ln, err = stream.Listen(ctx, "tcp", ":25") { // out of descriptors or memory
		if err := spindle.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
		defer c.Close()
		lines := bufio.NewScanner(c)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if _, err := fmt.Fprintln(c, strings.ToUpper(lines.Text())); err != nil {
				return nil // the client or the network failed
			}
		}
		return nil
	})
}

// askLines sends lines and checks the answers.
func askLines(ctx context.Context, lines ...string) error {
	c, err := stream.Dial(ctx, "tcp", "server:25")
	if err != nil {
		return err
	}
	defer c.Close()
	answers := bufio.NewReader(c)
	for _, line := range lines {
		if _, err := fmt.Fprintln(c, line); err != nil {
			return err
		}
		answer, err := answers.ReadString('\n')
		if err != nil {
			return err
		}
		if answer != strings.ToUpper(line)+"\n" {
			return errWrong
		}
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	if n, err := answers.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return fmt.Errorf("%d bytes and %w instead of the end", n, err)
	}
	return nil
}

var errWrong = errors.New("a wrong answer")

// linesUnderSiege is a server and clients of package stream with faults. An answer may be
// late or missing, but is never wrong.
func linesUnderSiege(w *sim.World) {
	server := w.Host("server")
	server.Serve(serveLines)
	for i := range 3 {
		client := w.Host(fmt.Sprint("client", i))
		client.Go(func(ctx context.Context) error {
			for range 15 {
				for {
					err := spindle.FailAfter(ctx, 2*time.Second, func(ctx context.Context) error {
						return askLines(ctx, "hello", strings.Repeat(client.Name(), 9000), "bye")
					})
					if err == nil {
						break
					}
					if errors.Is(err, errWrong) || ctx.Err() != nil {
						return err
					}
					if err := spindle.Sleep(ctx, 100*time.Millisecond); err != nil {
						return err
					}
				}
				if err := spindle.Sleep(ctx, time.Second); err != nil {
					return err
				}
			}
			return nil
		})
	}
	w.Faults = sim.Faults{
		For: 20 * time.Second, Lasting: time.Second,
		Loss: 0.01, Dribble: 0.3, Spurious: 0.05,
		PartitionEvery: time.Second, SlowEvery: 3 * time.Second, CrashEvery: 4 * time.Second, PauseEvery: 3 * time.Second, CallEvery: 5 * time.Second,
	}
}

func TestExploreStreams(t *testing.T) { sim.Explore(t, fewer(20), linesUnderSiege) }

// Example_stream runs a server and a client of package stream on two hosts.
func Example_stream() {
	w := sim.NewWorld(7)
	w.Host("server").Serve(serveLines)
	w.Host("client").Go(func(ctx context.Context) error { return askLines(ctx, "hello", "world") })
	fmt.Println(w.Run())
	// Output: <nil>
}
