//go:build !(linux || darwin || dragonfly || freebsd || netbsd)

package main

import (
	"errors"
	"os"
)

// Where Spindle has no poller there is nothing to measure either.

func isTerminal(*os.File) bool { return false }

type pair struct{ near, far int }

func newPair() (pair, error) { return pair{}, errors.ErrUnsupported }

func (pair) send() error { return errors.ErrUnsupported }

func (pair) close() {}

func spent() (expense, error) { return expense{}, errors.ErrUnsupported }
