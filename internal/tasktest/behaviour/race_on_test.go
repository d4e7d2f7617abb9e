//go:build race

package behaviour_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/spindleloop/spindle"
)

// waves is how many waves of a thousand tasks are a million under the race
// detector, where each costs ten times as much.
const waves = 50

// TestRaceDetectorSeesThroughOwnership: a goroutine that calls Current is not synchronized
// with the loop by that. What it then reads is a race, and must be reported.
func TestRaceDetectorSeesThroughOwnership(t *testing.T) {
	const child = "SPINDLE_TEST_RACES"
	if os.Getenv(child) != "" {
		raceWithTask()
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "WARNING: DATA RACE") {
		t.Errorf("no race was reported: %v\n%s", err, out)
	}
}

func raceWithTask() {
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil {
		panic(err)
	}
	defer syscall.Close(pipe[0])
	defer syscall.Close(pipe[1])
	shared, done := 0, make(chan struct{})
	spindle.Run(context.Background(), func(ctx context.Context) error {
		go func() {
			defer close(done)
			rawByte(syscall.SYS_READ, pipe[0])
			spindle.Current(ctx)
			shared++
		}()
		shared++
		spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(spindle.Yield) // another coroutine owns the loop for a while
			return nil
		})
		rawByte(syscall.SYS_WRITE, pipe[1])
		<-done
		return nil
	})
}

// rawByte moves one byte by a system call that the race detector does not see.
func rawByte(call uintptr, fd int) {
	var buf [1]byte
	syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&buf)), 1)
}
