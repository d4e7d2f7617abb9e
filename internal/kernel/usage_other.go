//go:build !(linux || darwin || dragonfly || freebsd || netbsd)

package kernel

import "time"

func cpuTime() (time.Duration, bool) { return 0, false }
