package sim_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/transport"
)

// TestListenersLeftOpenAreClosedInOrder: listeners that a program leaves open are closed
// with its loop, in the same order in every run.
func TestListenersLeftOpenAreClosedInOrder(t *testing.T) {
	listen := map[string]func(ctx context.Context, address string) error{
		"streams": func(ctx context.Context, address string) error {
			_, err := stream.Listen(ctx, "tcp", address)
			return err
		},
		"transports": func(ctx context.Context, address string) error {
			_, err := transport.Listen(spindle.LoopOf(ctx), "tcp", address, transport.Options{Protocol: func() transport.Protocol { return echo{} }})
			return err
		},
	}
	for name, listen := range listen {
		t.Run(name, func(t *testing.T) {
			sim.Explore(t, 5, func(w *sim.World) {
				w.Latency = sim.Fixed(time.Millisecond)
				w.Host("server").Go(func(ctx context.Context) error {
					for port := range 8 {
						if err := listen(ctx, fmt.Sprint(":", port+1)); err != nil {
							return err
						}
					}
					return spindle.Sleep(ctx, 10*time.Second)
				})
				client := w.Host("client")
				client.Go(func(ctx context.Context) error {
					if err := spindle.Sleep(ctx, time.Second); err != nil {
						return err
					}
					return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
						for port := range 8 {
							n.Go(func(ctx context.Context) error {
								c, err := stream.Dial(ctx, "tcp", fmt.Sprint("server:", port+1))
								if err != nil {
									return err
								}
								defer c.Close()
								_, err = io.ReadAll(c)
								client.Note("%d: %v", port, err)
								return nil
							})
						}
						return nil
					})
				})
			})
		})
	}
}

// TestSimulatedSocketsTouchNoFiles: closing a simulated Unix socket does not remove a real
// file of the same name.
func TestSimulatedSocketsTouchNoFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	sim.Test(t, func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "unix", path)
		if err != nil {
			return err
		}
		if err := ln.Close(); err != nil {
			return err
		}
		pc, err := stream.ListenPacket(ctx, "unixgram", path)
		if err != nil {
			return err
		}
		return pc.Close()
	})
	if got, err := os.ReadFile(path); err != nil || string(got) != "mine" {
		t.Errorf("the machine's file is %q: %v", got, err)
	}
}
