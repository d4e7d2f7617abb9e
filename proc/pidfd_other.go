//go:build !linux

package proc

import "os"

// handleOf has no handle to give: other systems have none that a loop can watch.
func handleOf(*os.Process) (fd int, ok bool) { return -1, false }
