package pyapp

import "time"

// The processes of workers have the time of the system, and so do the goroutines that exchange frames with them.

func now() time.Time { return time.Now() }

func after(d time.Duration, fn func()) *time.Timer { return time.AfterFunc(d, fn) }
