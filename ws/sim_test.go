package ws_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// world adds a server of Sockets and a client's host to a simulated world.
func world(w *sim.World, o ws.Options, handler func() ws.Handler) (server, client *sim.Host) {
	server, client = w.Host("server"), w.Host("client")
	server.Serve(func(ctx context.Context) error {
		s := &web.Server{Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws.Upgrade(w, r, handler(), o)
		}))}
		return s.ListenAndServe(ctx, "0.0.0.0:80")
	})
	return server, client
}

// reach dials until the server listens.
func reach(ctx context.Context, o ws.Options) (*ws.Conn, error) {
	for {
		c, err := ws.Dial(ctx, "ws://server/", o)
		if err == nil || ctx.Err() != nil {
			return c, err
		}
		if err := spindle.Sleep(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// TestPartitionIsDetectedByKeepAlive: both sides send pings, get no answer, and fail
// in time, but not early.
func TestPartitionIsDetectedByKeepAlive(t *testing.T) {
	const interval, parted = 30 * time.Second, 10 * time.Minute
	o := ws.Options{PingInterval: interval, PingTimeout: 10 * time.Second}
	w := sim.NewWorld(1)
	var serverSaw, clientSaw error
	var serverAt, clientAt time.Duration
	server, client := world(w, o, func() ws.Handler {
		return &watching{ended: func(err error) { serverSaw, serverAt = err, w.Now() }}
	})
	client.Go(func(ctx context.Context) error {
		c, err := reach(ctx, o)
		if err != nil {
			return err
		}
		_, _, clientSaw = c.Read(ctx)
		clientAt = w.Now()
		return spindle.Sleep(ctx, time.Minute) // outlives the server's timeout
	})
	w.After(parted, func() {
		if serverSaw != nil || clientSaw != nil {
			t.Errorf("failed before the partition: %v, %v", serverSaw, clientSaw)
		}
		w.Partition(server, client)
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	for side, saw := range map[string]struct {
		err error
		at  time.Duration
	}{"server": {serverSaw, serverAt}, "client": {clientSaw, clientAt}} {
		if late := saw.at - parted; !errors.Is(saw.err, ws.ErrNoAnswer) || late < 10*time.Second || late > 2*interval+11*time.Second {
			t.Errorf("the %s saw %v after %v", side, saw.err, late)
		}
	}
}

// TestActivePeerIsNotPinged: received data shows that the peer is alive.
func TestActivePeerIsNotPinged(t *testing.T) {
	w := sim.NewWorld(3)
	_, client := world(w, ws.Options{PingInterval: 30 * time.Second}, func() ws.Handler { return plainEcho{} })
	client.Go(func(ctx context.Context) error {
		nc, err := reachPlainly(ctx, "server:80")
		if err != nil {
			return err
		}
		defer nc.Close()
		io.WriteString(nc, request("server", "/"))
		in := bufio.NewReader(nc)
		if _, err := http.ReadResponse(in, nil); err != nil {
			return err
		}
		for range 60 {
			if _, err := nc.Write(frame(fin|text, "here", true)); err != nil {
				return err
			}
			got := make([]byte, 6)
			if _, err := io.ReadFull(in, got); err != nil || got[0] != fin|text {
				return fmt.Errorf("a frame begins with %#x, %w", got[0], err)
			}
			if err := spindle.Sleep(ctx, 10*time.Second); err != nil {
				return err
			}
		}
		return nil
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

// reachPlainly connects without a handshake once the server listens.
func reachPlainly(ctx context.Context, address string) (*stream.Conn, error) {
	for {
		nc, err := stream.Dial(ctx, "tcp", address)
		if err == nil || ctx.Err() != nil {
			return nc, err
		}
		if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// watching is a handler that only reports the end.
type watching struct{ ended func(error) }

func (h *watching) OnOpen(*ws.Socket)                     {}
func (h *watching) OnMessage(*ws.Socket, ws.Kind, []byte) {}
func (h *watching) OnClose(_ *ws.Socket, err error)       { h.ended(err) }

// TestUnansweredClose checks that both kinds of connection close after CloseTimeout.
func TestUnansweredClose(t *testing.T) {
	o := ws.Options{CloseTimeout: 7 * time.Second}
	w := sim.NewWorld(2)
	var saw error
	var took time.Duration
	_, client := world(w, o, func() ws.Handler {
		return &closing{closed: func() { took = w.Now() }, ended: func(err error) { saw, took = err, w.Now()-took }}
	})
	mute := w.Host("mute")
	mute.Serve(func(ctx context.Context) error { // a server that reads and sends nothing
		ln, err := stream.Listen(ctx, "tcp", "0.0.0.0:80")
		if err != nil {
			return err
		}
		return stream.Serve(ctx, ln, func(ctx context.Context, nc *stream.Conn) error {
			if _, err := ws.AcceptOn(nc, ws.Options{}); err != nil {
				return err
			}
			_, err := io.Copy(io.Discard, nc)
			return err
		})
	})
	client.Go(func(ctx context.Context) error {
		nc, err := reachPlainly(ctx, "server:80")
		if err != nil {
			return err
		}
		io.WriteString(nc, request("server", "/"))
		io.Copy(io.Discard, nc) // until the other side closes
		return nc.Close()
	})
	client.Go(func(ctx context.Context) error {
		c, err := ws.Dial(ctx, "ws://mute/", o)
		for err != nil {
			if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
				return err
			}
			c, err = ws.Dial(ctx, "ws://mute/", o)
		}
		began := w.Now()
		if err := c.Close(1000, ""); err != ws.ErrCloseTimeout || w.Now()-began < 7*time.Second || w.Now()-began > 8*time.Second {
			return fmt.Errorf("Close: %v after %v", err, w.Now()-began)
		}
		return nil
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	if saw != ws.ErrCloseTimeout || took < 7*time.Second || took > 8*time.Second {
		t.Errorf("the server saw %v after %v", saw, took)
	}
}

// closing is a handler that closes at once.
type closing struct {
	closed func()
	ended  func(error)
}

func (h *closing) OnOpen(s *ws.Socket) {
	h.closed()
	s.Close(ws.GoingAway, "not now")
}
func (h *closing) OnMessage(*ws.Socket, ws.Kind, []byte) {}
func (h *closing) OnClose(_ *ws.Socket, err error)       { h.ended(err) }

// TestCloseFromBothSidesAtOnce checks that each side takes the other's Close for the
// answer.
func TestCloseFromBothSidesAtOnce(t *testing.T) {
	sim.Explore(t, 50, func(w *sim.World) {
		saw := make([]error, 2)
		_, client := world(w, ws.Options{}, func() ws.Handler {
			return &closing{closed: func() {}, ended: func(err error) { saw[0] = err }}
		})
		client.Go(func(ctx context.Context) error {
			c, err := reach(ctx, ws.Options{})
			if err != nil {
				return err
			}
			began := w.Now()
			if err := c.Close(4001, "bye"); err != nil {
				return fmt.Errorf("Close: %w", err)
			}
			if took := w.Now() - began; took > ws.LingerTime/2 { // the server does not wait for our end
				return fmt.Errorf("Close took %v", took)
			}
			_, _, saw[1] = c.Read(ctx)
			if err := spindle.Sleep(ctx, 2*time.Second); err != nil {
				return err
			}
			if ws.CodeOf(saw[0]) != 4001 || ws.CodeOf(saw[1]) != ws.GoingAway {
				return fmt.Errorf("the server saw %v, the client %v", saw[0], saw[1])
			}
			return nil
		})
	})
}

// TestMessagesThroughABadNetwork checks that messages arrive whole and in order,
// compressed or not, whatever the network does with their bytes.
func TestMessagesThroughABadNetwork(t *testing.T) {
	sim.Explore(t, 20, func(w *sim.World) {
		o := ws.Options{CompressFrom: 200, PingInterval: time.Second, PingTimeout: time.Minute}
		server, client := world(w, o, func() ws.Handler { return plainEcho{} })
		w.Link(server, client).Set(sim.LinkOptions{Loss: 0.05, Dribble: 0.3, Latency: sim.LongTail(20 * time.Millisecond)})
		client.Go(func(ctx context.Context) error {
			c, err := reach(ctx, o)
			if err != nil {
				return err
			}
			for i := range 30 {
				message := fmt.Sprint(i, large(i*i*10))
				if err := c.Write(ctx, ws.Text, []byte(message)); err != nil {
					return err
				}
				if _, got, err := c.Read(ctx); err != nil || string(got) != message {
					return fmt.Errorf("message %d came back as %d bytes, %w", i, len(got), err)
				}
			}
			return c.Close(1000, "")
		})
	})
}

type plainEcho struct{}

func (plainEcho) OnOpen(*ws.Socket)                              {}
func (plainEcho) OnMessage(s *ws.Socket, kind ws.Kind, p []byte) { s.Send(kind, p) }
func (plainEcho) OnClose(*ws.Socket, error)                      {}
