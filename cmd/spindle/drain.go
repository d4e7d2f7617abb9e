package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// announceDrain prints a line when ctx ends and the command begins to drain. The caller must
// call done before the command returns.
func announceDrain(ctx context.Context, out io.Writer, command string, limit time.Duration) (done func()) {
	printed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(printed)
		fmt.Fprintf(out, "spindle %s: draining for at most %v; interrupt again to stop at once\n", command, limit)
	})
	return func() {
		if !stop() {
			<-printed
		}
	}
}
