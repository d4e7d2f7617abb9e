//go:build darwin || dragonfly || freebsd || netbsd

package top

import "golang.org/x/sys/unix"

const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)
