package sim_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/transport"
)

// secretly is the protocol of the server or of the client.
type secretly struct {
	say  string
	want int
	over func(got int, err error)
	got  int
}

func (p *secretly) ConnectionMade(c *transport.Conn) {
	if p.say != "" {
		c.Write([]byte(p.say))
	}
}

func (p *secretly) DataReceived(c *transport.Conn, data []byte) {
	if p.say == "" {
		c.Write(data)
		return
	}
	if p.got += len(data); p.got >= p.want {
		c.Close()
	}
}

func (p *secretly) ConnectionLost(c *transport.Conn, err error) {
	if p.over != nil {
		p.over(p.got, err)
	}
}

// secretEcho is an echo server and a client with TLS. The client ends some time after it has
// started the last connection.
func secretEcho(w *sim.World, after time.Duration) {
	server, client := w.Host("server"), w.Host("client")
	identity := &tls.Config{Certificates: tlstest.Identity().Server.Certificates} // with its own ticket keys
	server.Serve(func(ctx context.Context) error {
		s, err := transport.Listen(spindle.LoopOf(ctx), "tcp", ":443", transport.Options{
			TLS:      identity,
			Protocol: func() transport.Protocol { return &secretly{} },
		})
		if err != nil {
			return err
		}
		defer s.Close()
		return spindle.Sleep(ctx, time.Hour)
	})
	client.Go(func(ctx context.Context) error {
		for i := range 5 {
			over := spindle.NewFuture[error](ctx)
			text := fmt.Sprintf("%030000d", i)
			transport.Connect(ctx, spindle.LoopOf(ctx), "tcp", "server:443",
				transport.ConnectOptions{Protocol: &secretly{say: text, want: len(text), over: func(got int, err error) {
					if got != len(text) {
						err = fmt.Errorf("%d bytes, %w", got, errors.Join(err, errWrong))
					}
					over.Resolve(err)
				}}, TLS: tlstest.Identity().Client, OnError: func(err error) { over.Resolve(err) }})
			if i == 4 {
				return spindle.Sleep(ctx, after)
			}
			failed, err := over.Await(ctx)
			if err := errors.Join(failed, err); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestTLSInCallbacksIsDeterministic: the steps of handshakes are offloaded work, which the
// world runs in a fixed order. Explore runs some seeds twice.
func TestTLSInCallbacksIsDeterministic(t *testing.T) {
	tlstest.Identity()
	sim.Explore(t, 3, func(w *sim.World) { secretEcho(w, 0) })
}

// TestTLSInCallbacksEndsWithItsHost: an interrupted handshake leaves no goroutine in the
// bubble.
func TestTLSInCallbacksEndsWithItsHost(t *testing.T) {
	tlstest.Identity()
	steps := fewer(40)
	for step := range steps {
		after := step * 40 / steps
		sim.Explore(t, 1, func(w *sim.World) { secretEcho(w, time.Duration(after)*100*time.Microsecond) })
	}
}

// TestTLSInCallbacksIsRefusedOutsideOfTests, because keys would not follow the seed there.
func TestTLSInCallbacksIsRefusedOutsideOfTests(t *testing.T) {
	w := sim.NewWorld(1)
	secretEcho(w, 0)
	if err := w.Run(); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
