package behaviour_test

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
)

func TestWaitReadable(t *testing.T) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fds[0])
	defer syscall.Close(fds[1])
	err = spindle.Run(t.Context(), func(ctx context.Context) error {
		expired, err := spindle.MoveOnAfter(ctx, time.Millisecond, func(ctx context.Context) error { return spindle.WaitReadable(ctx, fds[0]) })
		if !expired || err != nil {
			t.Errorf("expired %v, %v", expired, err)
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { return spindle.WaitReadable(ctx, fds[0]) })
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			if err := spindle.WaitReadable(ctx, fds[0]); !errors.Is(err, fs.ErrExist) {
				t.Errorf("second reader: %v", err)
			}
			if err := spindle.WaitWritable(ctx, fds[1]); err != nil {
				return err
			}
			_, err := syscall.Write(fds[1], []byte("x"))
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}
