package simkernel

import (
	"errors"

	"github.com/spindleloop/spindle/internal/goid"
)

// errLocked is the failure of a switch to the driver from a goroutine that is locked to
// its thread. The runtime would end the process.
var errLocked = errors.New("sim: a program cannot wait while its thread is locked (runtime.LockOSThread)")

// checkUnlocked fails if the calling goroutine is locked to its thread, and unlocks it. A
// process that drives the world itself may be locked.
func (p *Process) checkUnlocked() error {
	if p.yield == nil || *goid.LockWord(goid.Current()) == 0 {
		return nil
	}
	goid.ThreadLock{}.Restore()
	return errLocked
}

// mustDriveUnlocked panics if the driver is locked to its thread.
func mustDriveUnlocked() {
	if *goid.LockWord(goid.Current()) != 0 {
		panic("sim: a world cannot be driven on a locked thread (runtime.LockOSThread); its hosts have their own goroutines")
	}
}
