package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/examples/internal/servertest"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestLinesAreAnswered(t *testing.T) {
	c := servertest.DialTCP(t, servertest.Listen(t, run))
	io.WriteString(c, "1 2 + 4 *\r\n7 2 /\n\nadd 1 2\n1 +\n1 2 3 -\n1 2 ")
	io.WriteString(c, "%\n5") // the last line has no end
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
		t.Errorf("%v; it answers\n%swant\n%s", err, got, want)
	}
}

// TestALineThatIsTooLong sends more than the limit without a line end. The client must get
// the reason, and other clients stay connected.
func TestALineThatIsTooLong(t *testing.T) {
	addr := servertest.Listen(t, run)
	other := servertest.DialTCP(t, addr)
	for _, size := range []int{lineLimit, 1 << 20} {
		c := servertest.DialTCP(t, addr)
		if _, err := io.WriteString(c, strings.Repeat("1", size)); err != nil {
			t.Fatal(err)
		}
		c.CloseWrite()
		if got, err := io.ReadAll(c); err != nil || string(got) != "error: a line has at most 256 bytes\n" {
			t.Errorf("after %d bytes: %q, %v", size, got, err)
		}
	}
	io.WriteString(other, strings.Repeat(" ", lineLimit-2)+"1\n") // just within
	if got, err := bufio.NewReader(other).ReadString('\n'); err != nil || got != "1\n" {
		t.Errorf("another client: %q, %v", got, err)
	}
}

// simulated runs the server and a client under virtual time.
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

// TestAClientThatIsTooSlow sends a byte now and then, each within the time-out.
func TestAClientThatIsTooSlow(t *testing.T) {
	simulated(t, func(ctx context.Context, c *stream.Conn) error {
		begin := spindle.Now(ctx)
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				defer n.Scope().Cancel(nil)
				got, err := io.ReadAll(c)
				took := spindle.Now(ctx).Sub(begin)
				if err != nil || string(got) != "error: a line has to come within 30s\n" {
					t.Errorf("%q, %v", got, err)
				}
				if took < turnTimeout-time.Second || took > turnTimeout+time.Second {
					t.Errorf("it took %v", took)
				}
				return nil
			})
			for {
				if _, err := c.Write([]byte("1")); err != nil {
					return err
				}
				if err := spindle.Sleep(ctx, turnTimeout/8); err != nil {
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
			if err := spindle.Sleep(ctx, turnTimeout*9/10); err != nil {
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
