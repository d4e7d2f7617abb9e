package inspect_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/transport"
	"github.com/spindleloop/spindle/web"
)

// serving runs a web server with h on a loop of that name, and calls check outside of it
// with its address.
func serving(t *testing.T, name string, h http.Handler, check func(addr string)) {
	t.Helper()
	run(t, name, func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			listening := spindle.NewFuture[string](ctx)
			s := &web.Server{Handler: h, OnListen: func(a net.Addr) { listening.Resolve(a.String()) }}
			n.Go(func(ctx context.Context) error { return s.ListenAndServe(ctx, "127.0.0.1:0") })
			addr, err := listening.Await(ctx)
			if err != nil {
				return err
			}
			outside(func() { check(addr) })
			n.Scope().Cancel(nil)
			return nil
		})
	})
}

func TestRequestsUnderWayAreShown(t *testing.T) {
	begun := make(chan struct{})
	h := web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		_ = spindle.Sleep(r.Context(), time.Hour)
	}))
	serving(t, "requests", h, func(addr string) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /slow?password=hunter2 HTTP/1.1\r\nHost: x\r\n\r\n")
		<-begun
		id := loopNamed(t, "requests").ID
		until.Tried(func() bool {
			status, body := request(inspect.Options{}, "GET", "/api/v1/snapshot?loop="+id, nil)
			if status != 200 || bytes.Contains(body, []byte("hunter2")) {
				t.Errorf("the snapshot shows the query of a request: %s", body)
			}
			return bytes.Contains(body, []byte("/slow"))
		})
		var a inspectapi.RequestsAnswer
		until.Tried(func() bool {
			a = get[inspectapi.RequestsAnswer](t, inspect.Options{}, "/api/v1/requests?loop="+id)
			return len(a.Requests) == 1 && a.Requests[0].Task != ""
		})
		if len(a.Requests) != 1 {
			t.Fatalf("%d requests: %+v", len(a.Requests), a.Requests)
		}
		r := a.Requests[0]
		if r.Method != "GET" || r.Path != "/slow" || r.Runs != "inline" || r.Phase != "handling" || r.Peer != c.LocalAddr().String() || r.Task == "" {
			t.Errorf("the request is %+v", r)
		}
		var tasks []inspectapi.Task
		until.Tried(func() bool {
			tasks = get[inspectapi.TasksAnswer](t, inspect.Options{}, "/api/v1/tasks?loop="+id).Tasks
			return hasTask(tasks, "GET /slow") && taskNamed(t, tasks, "GET /slow").WaitsFor == "Sleep"
		})
		if task := taskNamed(t, tasks, "GET /slow"); task.ID != r.Task || !task.Service || task.WaitsFor != "Sleep" {
			t.Errorf("its task is %+v", task)
		}
		sockets := get[inspectapi.SocketsAnswer](t, inspect.Options{}, "/api/v1/sockets?loop="+id).Sockets
		i := slices.IndexFunc(sockets, func(s inspectapi.Socket) bool { return s.ID == r.Socket })
		if i < 0 || sockets[i].Peer != c.LocalAddr().String() || sockets[i].Protocol != "http" || *sockets[i].InBytes == 0 || sockets[i].HighWater == 0 {
			t.Errorf("the sockets are %+v", sockets)
		}
		if !slices.ContainsFunc(sockets, func(s inspectapi.Socket) bool { return s.Kind == "listener" && s.Local == addr }) {
			t.Errorf("no listener in %+v", sockets)
		}
	})
}

func TestStreamsAreShownAndClosed(t *testing.T) {
	run(t, "streams", func(ctx context.Context, outside func(func())) error {
		ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer ln.Close()
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
					_, _ = io.Copy(c, c)
					return nil
				})
			})
			outside(func() {
				c, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				fmt.Fprint(c, "x")
				_, _ = c.Read(make([]byte, 1)) // the connection is accepted
				var sockets []inspectapi.Socket
				until.Tried(func() bool {
					sockets = get[inspectapi.SocketsAnswer](t, inspect.Options{}, "/api/v1/sockets?loop="+loopNamed(t, "streams").ID+"&q="+c.LocalAddr().String()).Sockets
					return len(sockets) == 1
				})
				if len(sockets) != 1 || sockets[0].Kind != "stream" || sockets[0].Network != "tcp" || sockets[0].State != "open" {
					t.Fatalf("the sockets are %+v", sockets)
				}
				status, body, again := act("/api/v1/close?socket=" + sockets[0].ID)
				if status != 200 && (!again || status != 404) {
					t.Errorf("close: %d %s", status, body)
				}
				if _, err := c.Read(make([]byte, 1)); err == nil {
					t.Error("the connection is still open")
				}
				if status, _, _ := act("/api/v1/close?socket=" + sockets[0].ID); status != 404 {
					t.Errorf("closing it again: %d", status)
				}
			})
			n.Scope().Cancel(nil)
			return nil
		})
	})
}

// TestUnsentBytesAreThoseOfAWriterThatWaits has a peer that does not read.
func TestUnsentBytesAreThoseOfAWriterThatWaits(t *testing.T) {
	const size = 64 << 20
	for name, write := range map[string]func(c *stream.Conn, p []byte) error{
		"Write":  func(c *stream.Conn, p []byte) error { _, err := c.Write(p); return err },
		"Writev": func(c *stream.Conn, p []byte) error { _, err := c.Writev([][]byte{p[:1], p[1:]}); return err },
	} {
		run(t, "writer", func(ctx context.Context, outside func(func())) error {
			ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			defer ln.Close()
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(func(ctx context.Context) error {
					return stream.Serve(ctx, ln, func(_ context.Context, c *stream.Conn) error { return write(c, make([]byte, size)) })
				})
				outside(func() {
					c, err := net.Dial("tcp", ln.Addr().String())
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					var sockets []inspectapi.Socket
					until.Tried(func() bool {
						sockets = get[inspectapi.SocketsAnswer](t, inspect.Options{}, "/api/v1/sockets?loop="+loopNamed(t, "writer").ID+"&q="+c.LocalAddr().String()).Sockets
						return len(sockets) == 1 && sockets[0].WritePaused
					})
					if len(sockets) != 1 || sockets[0].UnsentBytes <= size/2 || sockets[0].UnsentBytes >= size {
						t.Errorf("%s: the sockets are %+v, want one with %d unsent bytes or a little less", name, sockets, size)
					}
				})
				n.Scope().Cancel(nil)
				return nil
			})
		})
	}
}

func TestScopesAreCancelled(t *testing.T) {
	run(t, "cancels", func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var ended error
			n.GoWith(spindle.TaskOptions{Name: "victim"}, func(ctx context.Context) error {
				return spindle.WithScope(ctx, func(ctx context.Context, _ *spindle.Scope) error {
					ended = spindle.Sleep(ctx, time.Hour)
					return ended
				})
			})
			outside(func() {
				var tasks []inspectapi.Task
				until.Tried(func() bool {
					tasks = tasksOf(t, "cancels", "").Tasks
					return hasTask(tasks, "victim") && taskNamed(t, tasks, "victim").WaitsFor == "Sleep"
				})
				victim := taskNamed(t, tasks, "victim")
				status, body, again := act("/api/v1/cancel?scope=" + victim.Scope)
				if status != 200 && (!again || status != 404) {
					t.Errorf("cancel: %d %s", status, body)
				}
			})
			for ended == nil {
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			if !strings.Contains(ended.Error(), "cancelled by an inspector") {
				t.Errorf("the task ended with %v", ended)
			}
			return nil
		})
	})
}

// TestDatagramSocketsAreShown: a datagram socket has the name of its network, and an endpoint
// the water marks that apply to it.
func TestDatagramSocketsAreShown(t *testing.T) {
	path := t.TempDir() + "/s"
	plain, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	raw, err := plain.(*net.UDPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = spindle.Run(t.Context(), func(ctx context.Context) error {
		for network, address := range map[string]string{"udp": "127.0.0.1:0", "unixgram": path} {
			c, err := stream.ListenPacket(ctx, network, address)
			if err != nil {
				return err
			}
			defer c.Close()
		}
		l := spindle.LoopOf(ctx)
		e, err := transport.Datagram(l, quiet{}, transport.DatagramOptions{Local: "127.0.0.1:0"})
		if err != nil {
			return err
		}
		defer e.Abort()
		raw.Control(func(fd uintptr) { err = l.AddReader(int(fd), func() {}) })
		if err != nil {
			return err
		}
		defer raw.Control(func(fd uintptr) { l.RemoveReader(int(fd)) })
		var got []string
		for _, s := range inspect.Snapshot(ctx).Sockets {
			got = append(got, fmt.Sprintf("%s %s, %v", s.Kind, s.Network, s.HighWater > s.LowWater && s.LowWater > 0))
		}
		slices.Sort(got)
		if want := []string{"packet udp, false", "packet udp, true", "packet unixgram, false", "watch udp, false"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// quiet is a transport.DatagramProtocol that does nothing.
type quiet struct{}

func (quiet) ConnectionMade(*transport.Endpoint)                     {}
func (quiet) DatagramReceived(*transport.Endpoint, transport.Packet) {}
func (quiet) ErrorReceived(*transport.Endpoint, error)               {}
func (quiet) ConnectionLost(*transport.Endpoint, error)              {}

// TestHTTP2StreamsAreShown: an HTTP/2 connection has its windows, and its streams with what they
// wait for.
func TestHTTP2StreamsAreShown(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 1<<20)) })
	run(t, "http2", func(ctx context.Context, outside func(func())) error {
		s := &web.Server{Handler: web.Inline(h), Protocols: new(http.Protocols)}
		s.Protocols.SetUnencryptedHTTP2(true)
		sv, err := s.Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer sv.Close()
		outside(func() {
			tr := &http.Transport{Protocols: s.Protocols, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}}
			defer tr.CloseIdleConnections()
			slow, err := (&http.Client{Transport: tr}).Get("http://" + sv.Addr().String() + "/slow?password=hunter2")
			if err != nil {
				t.Error(err)
				return
			}
			defer slow.Body.Close()
			id := loopNamed(t, "http2").ID
			until.Tried(func() bool {
				for _, s := range get[inspectapi.SocketsAnswer](t, inspect.Options{}, "/api/v1/sockets?loop="+id).Sockets {
					if s.Protocol != "h2" || s.Streams == nil {
						continue
					}
					for _, one := range s.Streams.All {
						if one.Method == "GET" && one.Path == "/slow" && one.Phase == "sending" && one.Queued > 0 && one.SendWindow == 0 {
							return true
						}
					}
				}
				return false
			})
			until.Tried(func() bool {
				requests := get[inspectapi.RequestsAnswer](t, inspect.Options{}, "/api/v1/requests?loop="+id).Requests
				return len(requests) == 1 && requests[0].Path == "/slow" && requests[0].Stream == 1 && requests[0].Runs == "inline" && requests[0].Task != ""
			})
		})
		return nil
	})
}
