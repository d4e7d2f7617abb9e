package simsamples

import (
	"context"
	"fmt"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// echo is a server that answers with what it was told, and clients that ask until
// they have their answers. No answer is ever wrong, and in the end all have come.
func echo(w *sim.World) {
	server := w.Host("server")
	server.Serve(func(ctx context.Context) error {
		return serve(ctx, ":7", func(line string) string { return line })
	})
	questions := w.Amount("questions", 10)
	for i := range w.Amount("clients", 3) {
		client := w.Host(fmt.Sprint("client", i+1))
		answered := 0
		client.Go(func(ctx context.Context) error {
			for answered < questions { // after a crash it goes on where it was
				question := fmt.Sprintf("%s-%d", client.Name(), answered+1)
				answer, err := insist(ctx, "server:7", question, 3*time.Second)
				if err != nil {
					return err
				}
				if answer != question {
					return fmt.Errorf("the answer to %q is %q", question, answer)
				}
				answered++
				if err := spindle.Sleep(ctx, time.Second); err != nil {
					return err
				}
			}
			return nil
		})
		w.Eventually(client.Name()+" is answered", 10*time.Minute, func() bool { return answered == questions })
	}
}
