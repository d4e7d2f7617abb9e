package main

import (
	"context"
	"io"

	"github.com/spindleloop/spindle"
	"golang.org/x/sys/unix"
)

// conn makes a reader and a writer of a descriptor, for code that knows nothing
// of tasks, such as bufio. It waits as a task of ctx does: the others run.
type conn struct {
	ctx context.Context
	fd  int
}

// Read waits for something to read. A connection that breaks has ended.
func (c conn) Read(p []byte) (int, error) {
	for {
		if err := spindle.WaitReadable(c.ctx, c.fd); err != nil {
			return 0, err
		}
		n, err := unix.Read(c.fd, p)
		switch {
		case err == unix.EAGAIN:
		case n <= 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Write waits until all of p is written.
func (c conn) Write(p []byte) (written int, err error) {
	for written < len(p) {
		if err := spindle.WaitWritable(c.ctx, c.fd); err != nil {
			return written, err
		}
		n, err := unix.Write(c.fd, p[written:])
		switch {
		case err == unix.EAGAIN:
		case err != nil:
			return written, io.ErrClosedPipe
		default:
			written += n
		}
	}
	return written, nil
}
