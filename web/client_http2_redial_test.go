package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
)

// TestTransportHTTP2GivesUpUselessServers: where each new connection takes no request, the client
// dials a few times, with pauses that grow, and then fails. It closes each of the connections.
func TestTransportHTTP2GivesUpUselessServers(t *testing.T) {
	const dials = 7 // pauses of 0, 1, 2, 4, 8 and 16 seconds are between them
	noStreams := append([]byte{0, 3}, number(0)...)
	for name, greeting := range map[string][]byte{
		"no streams": appendFrame(nil, settingsFrame, 0, 0, noStreams),
		"GOAWAY":     appendFrame(appendFrame(nil, settingsFrame, 0, 0, nil), goAwayFrame, 0, 0, make([]byte, 8)),
		"closed":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			sim.Explore(t, 5, func(w *sim.World) {
				accepted, closed := 0, 0
				server, client := w.Host("server"), w.Host("client")
				server.Serve(func(ctx context.Context) error {
					ln, err := stream.Listen(ctx, "tcp", ":80")
					if err != nil {
						return err
					}
					return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
						accepted++
						if greeting == nil {
							return nil
						}
						if _, err := c.Write(greeting); err != nil {
							return err
						}
						io.Copy(io.Discard, c)
						closed++
						return nil
					})
				})
				client.Go(func(ctx context.Context) error {
					tr := &web.Transport{Protocols: h2c()}
					tr.Dial = func(ctx context.Context, network, address string) (*stream.Conn, error) {
						if accepted > 2*dials {
							return nil, errors.New("the client dials again and again")
						}
						c, err := stream.Dial(ctx, network, address)
						if err == nil {
							err = spindle.Sleep(ctx, 10*time.Millisecond) // what the server says first has come
						}
						return c, err
					}
					began := spindle.Now(ctx)
					_, _, err := do(ctx, &http.Client{Transport: tr}, "GET", "http://server/", nil)
					took := spindle.Now(ctx).Sub(began)
					if err == nil || !strings.Contains(err.Error(), "accepts no requests") {
						return fmt.Errorf("after %d dials and %v: %v", accepted, took, err)
					}
					if accepted != dials || took < 31*time.Second || took > 36*time.Second {
						return fmt.Errorf("%d dials in %v", accepted, took)
					}
					if err := spindle.Sleep(ctx, time.Second); err != nil {
						return err
					}
					if greeting != nil && closed != dials {
						return errors.New("the client keeps connections that take no requests")
					}
					return nil
				})
			})
		})
	}
}
