//go:build !linux

package proc

import "os"

// openPidfd fails: other systems have no process descriptor that the loop can watch.
func openPidfd(*os.Process) (fd int, ok bool) { return -1, false }
