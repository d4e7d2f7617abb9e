package ws_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/ws"
)

// pingPong is a client that sends one message again and again, waits for each echo,
// and allocates nothing.
func pingPong(tb testing.TB, address, message string, times int) {
	tb.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	defer nc.Close()
	io.WriteString(nc, request(address, "/"))
	buf := make([]byte, 4<<10)
	for n := 0; n < 4 || string(buf[n-4:n]) != "\r\n\r\n"; {
		m, err := nc.Read(buf[n:])
		if err != nil {
			tb.Fatal(err)
		}
		n += m
	}
	out := frame(fin|binry, message, true)
	in := buf[:len(frame(fin|binry, message, false))]
	for range times {
		if _, err := nc.Write(out); err != nil {
			tb.Fatal(err)
		}
		if _, err := io.ReadFull(nc, in); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestSmallMessagesAllocateNothing covers reading and answering.
func TestSmallMessagesAllocateNothing(t *testing.T) {
	address := serveSockets(t, ws.Options{PingInterval: time.Minute}, func() ws.Handler { return plainEcho{} })
	pingPong(t, address, "warm", 100)
	const times = 5000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	pingPong(t, address, "a message of some forty bytes, or a bit more", times)
	runtime.ReadMemStats(&after)
	if n := float64(after.Mallocs-before.Mallocs) / times; n > 0.1 { // connecting allocates some
		t.Errorf("%.2f allocations per message", n)
	}
}

func BenchmarkEcho(b *testing.B) {
	address := serveSockets(b, ws.Options{}, func() ws.Handler { return plainEcho{} })
	b.ReportAllocs()
	b.ResetTimer()
	pingPong(b, address, large(64), b.N)
}

// receiver is a client that counts messages.
type receiver struct{ got *atomic.Int64 }

func (receiver) OnOpen(*ws.Socket)                       {}
func (r receiver) OnMessage(*ws.Socket, ws.Kind, []byte) { r.got.Add(1) }
func (receiver) OnClose(*ws.Socket, error)               {}

// BenchmarkBroadcast sends one message to a thousand clients. It measures only the
// server's loop: framing, and passing everything to the system.
func BenchmarkBroadcast(b *testing.B) {
	const clients = 1000
	for _, size := range []int{64, 1024, 16384} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			var all []*ws.Socket
			joined := make(chan *loop.Loop)
			address := serveSockets(b, ws.Options{UnsentLimit: 64 << 20}, func() ws.Handler {
				return &socketEcho{t: b, ended: make(chan error, clients), onOpen: func(s *ws.Socket) {
					if all = append(all, s); len(all) == clients {
						joined <- s.Conn().Loop()
					}
				}}
			})
			var got atomic.Int64
			steady(b, func(l *loop.Loop) {
				for range clients {
					ws.Connect(context.Background(), l, "ws://"+address+"/", receiver{&got}, ws.Options{OnError: func(err error) { b.Error(err) }})
				}
			})
			l := <-joined
			message := []byte(large(size))
			var spent time.Duration
			var allocs uint64
			b.ResetTimer()
			for i := range b.N {
				done := make(chan bool)
				l.Post(func() {
					var before, after runtime.MemStats
					if i == b.N-1 {
						runtime.ReadMemStats(&before)
					}
					began := l.Time()
					m := ws.Prepare(ws.Binary, message)
					for _, s := range all {
						s.SendPrepared(m)
					}
					l.CallSoon(func() { // after the callback that sends
						spent += l.Time() - began
						if i == b.N-1 {
							runtime.ReadMemStats(&after)
							allocs = after.Mallocs - before.Mallocs
						}
						close(done)
					})
				})
				<-done
				for got.Load() < int64((i+1)*clients) {
					runtime.Gosched()
				}
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N)/clients, "ns/client")
			b.ReportMetric(float64(allocs), "allocs/broadcast")
			b.ReportMetric(0, "ns/op")
		})
	}
}
