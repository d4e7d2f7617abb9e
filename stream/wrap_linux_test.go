package stream_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

// openTerminal opens a pseudo-terminal and returns its two ends.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

func TestWrapTerminal(t *testing.T) {
	master, slave := openTerminal(t)
	withNursery(t, func(t *testing.T, ctx context.Context, n *spindle.Nursery) error {
		user, err := stream.Wrap(ctx, master)
		if err != nil {
			return err
		}
		defer user.Close()
		program, err := stream.Wrap(ctx, slave)
		if err != nil {
			return err
		}
		defer program.Close()
		n.Go(func(ctx context.Context) error {
			if err := spindle.Yield(ctx); err != nil { // the reader waits by then
				return err
			}
			_, err := fmt.Fprintln(user, "typed")
			return err
		})
		line, err := bufio.NewReader(program).ReadString('\n')
		if line != "typed\n" {
			t.Errorf("the program reads %q", line)
		}
		return err
	})
}
