//go:build !(linux || darwin || dragonfly || freebsd || netbsd)

package top

import (
	"errors"
	"os"
)

type terminal struct{ resized chan os.Signal }

func openTerminal(_, _ *os.File) (*terminal, error) { return nil, errors.ErrUnsupported }

func (*terminal) restore() {}

func (*terminal) size() (width, height int) { return 80, 24 }
