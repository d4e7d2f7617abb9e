package simsamples

import (
	"context"
	"fmt"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// echo is a server that answers with the request, and clients that retry until they have
// their answers. Every answer is correct, and in the end all clients have all answers.
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
			for answered < questions { // after a crash it continues where it was
				question := fmt.Sprintf("%s-%d", client.Name(), answered+1)
				answer, err := askUntilAnswered(ctx, "server:7", question, 3*time.Second)
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
		w.Eventually(client.Name()+" has all answers", 10*time.Minute, func() bool { return answered == questions })
	}
}
