package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// sayDraining prints a line when ctx ends and the command begins to drain. The
// function it returns must be called before the command returns.
func sayDraining(ctx context.Context, out io.Writer, command string, limit time.Duration) (done func()) {
	said := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(said)
		fmt.Fprintf(out, "spindle %s: draining, for at most %v; interrupt again to cut off\n", command, limit)
	})
	return func() {
		if !stop() {
			<-said
		}
	}
}
