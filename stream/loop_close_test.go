package stream_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

const orphanAt = "SPINDLE_TEST_ORPHAN"

// TestLoopClosesDuringCalls: a loop that is stopped and closed leaves its tasks
// where they wait, but the goroutines that they work for get errors. The test runs
// in a process of its own, because such tasks are never collected.
func TestLoopClosesDuringCalls(t *testing.T) {
	path := t.TempDir() + "/p"
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orphanAt+"="+path)
	if out, err := cmd.CombinedOutput(); string(out) != "closed\nclosed\n" || err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket's path still exists: %v", err)
	}
}

func orphan(path string) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		panic(err)
	}
	results := make(chan error, 2)
	spindle.RunOn(context.Background(), l, func(ctx context.Context) error {
		a, err := stream.DialPacket(ctx, "udp", "127.0.0.1:9")
		if err != nil {
			return err
		}
		b, err := stream.ListenPacket(ctx, "unixgram", path)
		if err != nil {
			return err
		}
		for _, c := range []*stream.PacketConn{a, b} {
			go func() { _, err := c.Read(make([]byte, 1)); results <- err }()
		}
		for len(waiters(ctx, "PacketConn.Read")) < 2 {
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
		l.Stop()
		return spindle.Sleep(ctx, time.Hour)
	}, nil)
	l.Run(context.Background())
	l.Close()
	for range 2 {
		if err := <-results; errors.Is(err, net.ErrClosed) {
			fmt.Println("closed")
		}
	}
}
