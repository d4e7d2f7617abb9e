package process_test

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/process"
)

// graceOfTheRun is much shorter than the request takes.
const graceOfTheRun = 100 * time.Millisecond

// TestRequestIsFinishedInACancelledRun: a request has the time of Options.Drain, and its process
// too, even if it is longer than the grace period of the run.
func TestRequestIsFinishedInACancelledRun(t *testing.T) {
	for name, socket := range map[string]bool{"pipes": false, "socket": true} {
		t.Run(name, func(t *testing.T) {
			bus := relay.NewLocal(relay.LocalOptions{})
			c, err := relay.NewCaller(t.Context(), bus, relay.CallerOptions{Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ready, ended := make(chan bool), make(chan error, 1)
			o := process.Options{
				Command: []string{os.Args[0]}, Env: append(os.Environ(), workerVariable+"=1"),
				Socket: socket, StartTimeout: time.Minute, Drain: time.Minute, Ready: func() { close(ready) },
			}
			go func() {
				ended <- spindle.Options{Grace: graceOfTheRun}.Run(ctx, func(ctx context.Context) error {
					return process.Serve(ctx, bus, "work", o)
				})
			}()
			select {
			case <-ready:
			case err := <-ended:
				t.Fatal(err)
			}
			s, err := c.Stream(t.Context(), relay.Envelope{Subject: "work", Body: []byte("linger")})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
			cancel()
			if _, err := s.Next(t.Context()); err != io.EOF {
				t.Errorf("the stream ends with %v", err)
			}
			if err := <-ended; errors.Is(err, spindle.ErrStragglers) {
				t.Error(err)
			}
		})
	}
}
