package nats_test

import (
	"testing"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// BenchmarkCall compares calls with requests of the client of NATS, on the same server. One
// call at a time, and 64. Handlers of relay may block, so they run on goroutines; the plain
// client is shown with handlers that must not block, and with a goroutine for each.
func BenchmarkCall(b *testing.B) {
	server := start(b, broker.Options{})
	serve(b, connect(b, server, nats.Options{}), "relay", echo, relay.ServeOptions{})
	calls := caller(b, connect(b, server, nats.Options{}))
	worker, err := client.Connect(server.URL())
	if err != nil {
		b.Fatal(err)
	}
	defer worker.Close()
	requester, err := client.Connect(server.URL())
	if err != nil {
		b.Fatal(err)
	}
	defer requester.Close()
	worker.QueueSubscribe("plain", "workers", func(m *client.Msg) { m.Respond(m.Data) })
	worker.QueueSubscribe("goroutine", "workers", func(m *client.Msg) { go m.Respond(m.Data) })
	worker.Flush()
	body := make([]byte, 64)
	for name, call := range map[string]func() error{
		"relay": func() error { _, err := calls.Call(b.Context(), "relay", body); return err },
		"plain": func() error { _, err := requester.Request("plain", body, time.Minute); return err },
		"goroutine": func() error {
			_, err := requester.Request("goroutine", body, time.Minute)
			return err
		},
	} {
		b.Run(name+"/one", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := call(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/many", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := call(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
