//go:build linux

package proc

import (
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// Cores returns the cores that this process may run on, in ascending order.
func Cores() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var cores []int
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			cores = append(cores, i)
		}
	}
	return cores, nil
}

// StartOn starts cmd on the given cores.
//
// It sets the affinity of the forking thread, which the child inherits. Pinning after
// the start would miss the threads that a runtime has started by then, and the runtime
// would already have counted the cores.
func StartOn(cores []int, cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	for _, core := range cores {
		only.Set(core)
	}
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return fmt.Errorf("proc: cannot run on cores %d: %w", cores, err)
	}
	err := cmd.Start()
	if restoreErr := unix.SchedSetaffinity(0, &before); restoreErr != nil && err == nil {
		err = restoreErr
	}
	return err
}
