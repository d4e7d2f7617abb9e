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

// maxLine is the maximal length of a line.
const maxLine = 64 << 10

// serve answers lines, one after the other on each connection, until it is cancelled. If
// listening fails, it tries again.
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
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			if _, err := fmt.Fprintln(c, answer(lines.Text())); err != nil {
				return nil // the client or the network failed
			}
		}
		return nil
	})
}

// ask sends a line and returns the answer.
func ask(ctx context.Context, address, line string, timeout time.Duration) (answer string, err error) {
	err = spindle.FailAfter(ctx, timeout, func(ctx context.Context) error {
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

// askUntilAnswered repeats ask until there is an answer.
func askUntilAnswered(ctx context.Context, address, line string, timeout time.Duration) (string, error) {
	for {
		answer, err := ask(ctx, address, line, timeout)
		if err == nil {
			return answer, nil
		}
		if err := spindle.Sleep(ctx, retryAfter); err != nil {
			return "", err
		}
	}
}

// retryAfter is the delay before another attempt.
const retryAfter = 200 * time.Millisecond
