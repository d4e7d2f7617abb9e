package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/examples/internal/trial"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

func TestMain(m *testing.M) { leak.Main(m) }

// start runs the server until the test ends.
func start(t *testing.T) (addr string) {
	t.Helper()
	return trial.Start(t, func(ctx context.Context, out io.Writer) error { return run(ctx, "127.0.0.1:0", out) }).Addr(t)
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	return trial.Dial(t, "tcp", addr).(*net.TCPConn)
}

func TestLinesAreAnswered(t *testing.T) {
	c := dial(t, start(t))
	io.WriteString(c, "1 2 + 4 *\r\n7 2 /\n\nadd 1 2\n1 +\n1 2 3 -\n1 2 ")
	io.WriteString(c, "%\n5") // the last is no line
	c.CloseWrite()
	got, err := io.ReadAll(c)
	const want = `12
3.5
error: one number has to be left, not 0
error: "add" has too little before it, or is no number
error: "+" has too little before it, or is no number
error: one number has to be left, not 2
error: "%" is neither number nor operator
`
	if err != nil || string(got) != want {
		t.Errorf("%v; it says\n%swant\n%s", err, got, want)
	}
}

// However much a client sends without a line's end, it learns why it has to go,
// and the others stay.
func TestALineThatIsTooLong(t *testing.T) {
	addr := start(t)
	other := dial(t, addr)
	for _, size := range []int{longest, 1 << 20} {
		c := dial(t, addr)
		if _, err := io.WriteString(c, strings.Repeat("1", size)); err != nil {
			t.Fatal(err)
		}
		c.CloseWrite()
		if got, err := io.ReadAll(c); err != nil || string(got) != "error: a line has at most 256 bytes\n" {
			t.Errorf("after %d bytes: %q, %v", size, got, err)
		}
	}
	io.WriteString(other, strings.Repeat(" ", longest-2)+"1\n") // just within
	if got, err := bufio.NewReader(other).ReadString('\n'); err != nil || got != "1\n" {
		t.Errorf("another client: %q, %v", got, err)
	}
}

// simulated runs the server and a client in a world of their own, where minutes
// pass at once.
func simulated(t *testing.T, client func(ctx context.Context, c *stream.Conn) error) {
	t.Helper()
	w := sim.NewWorld(1)
	w.Host("server").Serve(func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", ":9000")
		if err != nil {
			return err
		}
		return stream.Serve(ctx, ln, converse)
	})
	w.Host("client").Go(func(ctx context.Context) error {
		c, err := stream.Dial(ctx, "tcp", "server:9000")
		if err != nil {
			return err
		}
		defer c.Close()
		return client(ctx, c)
	})
	if err := w.Run(); err != nil {
		t.Error(err)
	}
}

// A byte now and then is not enough, though each comes in time.
func TestAClientThatIsTooSlow(t *testing.T) {
	simulated(t, func(ctx context.Context, c *stream.Conn) error {
		begin := spindle.Now(ctx)
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				defer n.Scope().Cancel(nil)
				got, err := io.ReadAll(c)
				took := spindle.Now(ctx) - begin
				if err != nil || string(got) != "error: a line has to come within 30s\n" {
					t.Errorf("%q, %v", got, err)
				}
				if took < patience-time.Second || took > patience+time.Second {
					t.Errorf("it took %v", took)
				}
				return nil
			})
			for {
				if _, err := c.Write([]byte("1")); err != nil {
					return err
				}
				if err := spindle.Sleep(ctx, patience/8); err != nil {
					return err
				}
			}
		})
	})
}

func TestAClientThatIsSlowButInTime(t *testing.T) {
	simulated(t, func(ctx context.Context, c *stream.Conn) error {
		answers := stream.NewReader(c, 0)
		for i := range 10 {
			if err := spindle.Sleep(ctx, patience*9/10); err != nil {
				return err
			}
			fmt.Fprintln(c, i, 1, "+")
			if got, err := answers.ReadLine(); err != nil || string(got) != fmt.Sprint(i+1) {
				return fmt.Errorf("%q, %w", got, err)
			}
		}
		return nil
	})
}
