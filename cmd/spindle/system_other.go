//go:build !(linux || darwin || dragonfly || freebsd || netbsd)

package main

import (
	"errors"
	"os"
	"time"
)

// Spindle has no poller on this system, so there is nothing to measure.

func isTerminal(*os.File) bool { return false }

type pair struct{ near, far int }

func newPair() (pair, error) { return pair{}, errors.ErrUnsupported }

func (pair) send() error { return errors.ErrUnsupported }

func (pair) answered() error { return errors.ErrUnsupported }

func (pair) hangUp() {}

func (pair) close() {}

func sleepThread(time.Duration) {}

func usageNow() (resources, error) { return resources{}, errors.ErrUnsupported }
