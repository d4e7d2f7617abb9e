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

// TestLoopClosedUnderCalls: a loop that somebody stops and closes leaves tasks where
// they wait; the goroutines whose calls they do are told. It is done in a process of
// its own, as such tasks are never collected.
func TestLoopClosedUnderCalls(t *testing.T) {
	path := t.TempDir() + "/p"
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orphanAt+"="+path)
	if out, err := cmd.CombinedOutput(); string(out) != "told\ntold\n" || err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the path is there still: %v", err)
	}
}

func orphan(path string) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		panic(err)
	}
	told := make(chan error, 2)
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
			go func() { _, err := c.Read(make([]byte, 1)); told <- err }()
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
		if err := <-told; errors.Is(err, net.ErrClosed) {
			fmt.Println("told")
		}
	}
}

// TestOpenFromGoroutines: every way to make something, by a goroutine with a task's
// context; and after the run has ended.
func TestOpenFromGoroutines(t *testing.T) {
	ways := map[string]func(ctx context.Context) (interface{ Close() error }, error){
		"Listen": func(ctx context.Context) (interface{ Close() error }, error) {
			return stream.Listen(ctx, "tcp", "127.0.0.1:0")
		},
		"ListenPacket": func(ctx context.Context) (interface{ Close() error }, error) {
			return stream.ListenPacket(ctx, "udp", "127.0.0.1:0")
		},
		"DialPacket": func(ctx context.Context) (interface{ Close() error }, error) {
			return stream.DialPacket(ctx, "udp", "localhost:9")
		},
	}
	var ctx context.Context
	run(t, spindle.Options{}, func(inner context.Context) error {
		ctx = inner
		ln := listen(t, ctx, "tcp")
		ways["Dial"] = func(ctx context.Context) (interface{ Close() error }, error) {
			return stream.Dial(ctx, "tcp", ln.Addr().String())
		}
		for name, open := range ways {
			c, err := spindle.Blocking(ctx, func() (interface{ Close() error }, error) { return open(ctx) })
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			check(t, c.Close())
		}
		return nil
	})
	for name, open := range ways {
		_, err := open(ctx)
		want(t, name+" after the run", err, net.ErrClosed)
	}
}
