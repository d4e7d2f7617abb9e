package simsamples

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

// mostLine is how long a line may be.
const mostLine = 64 << 10

// serve answers lines, one after the other on each connection, until it is
// cancelled. A system that is short of something is asked again.
func serve(ctx context.Context, address string, answer func(line string) string) error {
	ln, err := stream.Listen(ctx, "tcp", address)
	for ; err != nil; ln, err = stream.Listen(ctx, "tcp", address) {
		if err := spindle.Sleep(ctx, retryAfter); err != nil {
			return err
		}
	}
	return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
		defer c.Close()
		lines := bufio.NewScanner(c)
		lines.Buffer(nil, mostLine)
		for lines.Scan() {
			if _, err := fmt.Fprintln(c, answer(lines.Text())); err != nil {
				return nil // the client has gone, or the network has
			}
		}
		return nil
	})
}

// ask sends a line and returns the answer.
func ask(ctx context.Context, address, line string, patience time.Duration) (answer string, err error) {
	err = spindle.FailAfter(ctx, patience, func(ctx context.Context) error {
		c, err := stream.Dial(ctx, "tcp", address)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := fmt.Fprintln(c, line); err != nil {
			return err
		}
		answer, err = bufio.NewReader(c).ReadString('\n')
		return err
	})
	return strings.TrimSuffix(answer, "\n"), err
}

// insist asks until there is an answer.
func insist(ctx context.Context, address, line string, patience time.Duration) (string, error) {
	for {
		answer, err := ask(ctx, address, line, patience)
		if err == nil {
			return answer, nil
		}
		if err := spindle.Sleep(ctx, retryAfter); err != nil {
			return "", err
		}
	}
}

// retryAfter is how long one waits before one tries again.
const retryAfter = 200 * time.Millisecond
