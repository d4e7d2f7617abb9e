// Command bank transfers money between accounts that a server keeps. The client repeats an
// order that was not confirmed, so the server must recognise orders that it has already
// carried out. The test runs both in a simulated world with an unreliable network, and
// finds the bug in a server that forgets.
//
//	go run ./examples/bank
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

func main() {
	err := spindle.Run(context.Background(), func(ctx context.Context) error { return run(ctx, os.Stdout) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "bank:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	b := newBank()
	ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	spindle.RootNursery(ctx).Go(func(ctx context.Context) error { return stream.Serve(ctx, ln, b.serve) })
	for i, amount := range []int{10, 25} {
		if err := transfer(ctx, ln.Addr().String(), order{fmt.Sprint("order", i), "alice", "bob", amount}); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "alice", b.balance["alice"], "bob", b.balance["bob"])
	return nil
}

// order is one transfer. The client chooses the id, which is unique.
type order struct {
	id, from, to string
	amount       int
}

// bank holds the accounts and the ids of the orders that were carried out.
type bank struct {
	balance map[string]int
	done    map[string]bool
}

func newBank() *bank { return &bank{map[string]int{"alice": 100, "bob": 100}, map[string]bool{}} }

// serve carries out the orders of one connection.
func (b *bank) serve(ctx context.Context, c *stream.Conn) error {
	for in := bufio.NewReader(c); ; {
		var o order
		if _, err := fmt.Fscan(in, &o.id, &o.from, &o.to, &o.amount); err != nil {
			return nil // the client or the network has failed; the client will retry
		}
		if !b.done[o.id] {
			b.done[o.id] = true
			b.balance[o.from] -= o.amount
			b.balance[o.to] += o.amount
		}
		if _, err := fmt.Fprintln(c, "done"); err != nil {
			return nil
		}
	}
}

// transfer sends an order until it is confirmed.
func transfer(ctx context.Context, address string, o order) error {
	for {
		err := spindle.FailAfter(ctx, time.Second, func(ctx context.Context) error {
			c, err := stream.Dial(ctx, "tcp", address)
			if err != nil {
				return err
			}
			defer c.Close()
			if _, err := fmt.Fprintln(c, o.id, o.from, o.to, o.amount); err != nil {
				return err
			}
			_, err = bufio.NewReader(c).ReadString('\n')
			return err
		})
		if err == nil || ctx.Err() != nil {
			return err
		}
		if err := spindle.Sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}
