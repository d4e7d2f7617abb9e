package pyapp

import "time"

// Package pyapp uses the system's clock: its workers are processes, which cannot be simulated.

func now() time.Time { return time.Now() }

func after(d time.Duration, fn func()) *time.Timer { return time.AfterFunc(d, fn) }
