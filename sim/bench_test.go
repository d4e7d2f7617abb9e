package sim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/transport"
)

// BenchmarkEvents measures network events per second of real time: clients on their own
// hosts send requests to an echo server.
func BenchmarkEvents(b *testing.B) {
	for _, clients := range []int{1, 100} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			w := sim.NewWorld(1)
			w.Host("server").Serve(serveEcho(":7"))
			each := b.N/clients + 1
			messages := make([]string, each)
			for i := range messages {
				messages[i] = "hello"
			}
			for i := range clients {
				w.Host(fmt.Sprint("client", i)).Go(func(ctx context.Context) error { return ask(ctx, "server:7", messages...) })
			}
			b.ResetTimer()
			if err := w.Run(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(w.Steps())/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(len(w.Trace()))/b.Elapsed().Seconds(), "traced/s")
		})
	}
}

// tally counts the connections of an echo server. Its clients send a message and keep their
// connections for a second after the answer.
type tally struct {
	open, peak, answered int
}

type tallyServer struct{ *tally }

func (s tallyServer) ConnectionMade(*transport.Conn) {
	s.open++
	s.peak = max(s.peak, s.open)
}
func (s tallyServer) DataReceived(c *transport.Conn, data []byte) { c.Write(data) }
func (s tallyServer) ConnectionLost(*transport.Conn, error)       { s.open-- }

type tallyClient struct {
	*tally
	left *int
	over func()
}

func (p tallyClient) ConnectionMade(c *transport.Conn) { c.Write([]byte("hello")) }
func (p tallyClient) DataReceived(c *transport.Conn, data []byte) {
	if string(data) == "hello" {
		p.answered++
	}
	c.Loop().CallLater(time.Second, func() { c.Close() })
}
func (p tallyClient) ConnectionLost(*transport.Conn, error) {
	if *p.left--; *p.left == 0 {
		p.over()
	}
}

// TestVeryManyClients connects more clients to one server at the same time than a process
// usually may have descriptors: up to 50,000.
func TestVeryManyClients(t *testing.T) {
	hosts, each := 50, fewer(1000)
	w := sim.NewWorld(1)
	count := &tally{}
	w.Host("server").Serve(func(ctx context.Context) error {
		s, err := transport.Listen(spindle.LoopOf(ctx), "tcp", ":7", transport.Options{
			Protocol: func() transport.Protocol { return tallyServer{count} },
		})
		if err != nil {
			return err
		}
		defer s.Close()
		return spindle.Sleep(ctx, time.Hour)
	})
	for i := range hosts {
		w.Host(fmt.Sprint("clients", i)).Go(func(ctx context.Context) error {
			left, over := each, spindle.NewFuture[int](ctx)
			for range each {
				p := tallyClient{count, &left, func() { over.Resolve(0) }}
				transport.Connect(context.Background(), spindle.LoopOf(ctx), "tcp", "server:7", transport.ConnectOptions{Protocol: p, OnError: func(err error) { over.Reject(err) }})
			}
			_, err := over.Await(ctx)
			return err
		})
	}
	if err := w.Run(); err != nil || count.answered != hosts*each || count.peak != hosts*each {
		t.Errorf("of %d clients %d were answered, %d at once: %v", hosts*each, count.answered, count.peak, err)
	}
	t.Logf("%d events, %v of virtual time", w.Steps(), w.Now())
}
