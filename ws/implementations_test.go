package ws_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

func codeOf(err error) int { return int(ws.CodeOf(err)) }

// implementation is one of the kinds of server or client, with an echo of every
// message.
type implementation struct {
	name string
	// open starts it and returns its peer after the handshake.
	open func(t *testing.T, o ws.Options) *peer
}

var implementations = []implementation{
	{"socket server", openSocketServer},
	{"conn server", openConnServer},
	{"conn server of web", openWebConnServer},
	{"conn server in a task", openTaskServer},
	{"socket client", openSocketClient},
	{"conn client", openConnClient},
}

// onEvery runs a test with each implementation.
func onEvery(t *testing.T, o ws.Options, test func(t *testing.T, p *peer)) {
	t.Helper()
	for _, s := range implementations {
		t.Run(s.name, func(t *testing.T) { test(t, s.open(t, o)) })
	}
}

const deflateOffer = "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover"

// join performs a client's handshake with a server.
func join(t *testing.T, address string, o ws.Options) *peer {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, nc, true)
	var fields []string
	if o.CompressFrom > 0 {
		fields = append(fields, deflateOffer)
	}
	if res := p.handshake(request(address, "/", fields...)); res.StatusCode != 101 {
		t.Fatalf("status %d", res.StatusCode)
	}
	return p
}

// steady runs a loop in the background until the test ends.
func steady(t testing.TB, prepare func(l *loop.Loop)) *loop.Loop {
	t.Helper()
	l, err := loop.New(loop.Options{Watchdog: -1})
	if err != nil {
		t.Fatal(err)
	}
	prepare(l)
	done := make(chan error, 1)
	go func() { done <- l.Run(context.Background()) }()
	t.Cleanup(func() {
		l.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// socketEcho is an echo handler. Functions that are not nil replace its methods.
type socketEcho struct {
	t         testing.TB
	ended     chan error
	onOpen    func(s *ws.Socket)
	onMessage func(s *ws.Socket, kind ws.Kind, message []byte)
	opened    int
	closed    int
}

func (e *socketEcho) OnOpen(s *ws.Socket) {
	if e.opened++; e.opened > 1 || e.closed > 0 {
		e.t.Error("OnOpen is not the first call, or not the only")
	}
	if e.onOpen != nil {
		e.onOpen(s)
	}
}

func (e *socketEcho) OnMessage(s *ws.Socket, kind ws.Kind, message []byte) {
	if e.opened != 1 || e.closed > 0 {
		e.t.Error("OnMessage before OnOpen or after OnClose")
	}
	if e.onMessage != nil {
		e.onMessage(s, kind, message)
	} else {
		s.Send(kind, message)
	}
}

func (e *socketEcho) OnClose(s *ws.Socket, err error) {
	if e.closed++; e.closed > 1 || e.opened != 1 || err == nil {
		e.t.Errorf("OnClose for the %dth time, with %v", e.closed, err)
	}
	if err := s.Send(ws.Text, nil); err == nil {
		e.t.Error("Send after OnClose")
	}
	e.ended <- err
}

func openSocketServer(t *testing.T, o ws.Options) *peer {
	t.Helper()
	ended := make(chan error, 1)
	p := join(t, serveSockets(t, o, func() ws.Handler { return &socketEcho{t: t, ended: ended} }), o)
	p.ended = ended
	return p
}

// serveSockets starts a server of Sockets and returns its address.
func serveSockets(t testing.TB, o ws.Options, handler func() ws.Handler) (address string) {
	t.Helper()
	return serve(t, web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws.Upgrade(w, r, handler(), o)
	})))
}

// serve starts a web.Server on a loop of its own and returns its address.
func serve(t testing.TB, h http.Handler) (address string) {
	t.Helper()
	var sv *web.Service
	steady(t, func(l *loop.Loop) {
		var err error
		if sv, err = (&web.Server{Handler: h}).Listen(l, "tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { shut(sv) })
	return sv.Addr().String()
}

// shut ends a service and its connections, and waits for that.
func shut(sv *web.Service) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	sv.Shutdown(now)
}

// echo reads and writes until an error.
func echo(ctx context.Context, c *ws.Conn) error {
	defer c.CloseNow()
	for {
		kind, message, err := c.Read(ctx)
		if err != nil {
			return err
		}
		if err := c.Write(ctx, kind, message); err != nil {
			return err
		}
	}
}

func openConnServer(t *testing.T, o ws.Options) *peer {
	t.Helper()
	ended := make(chan error, 1)
	s := httptest.NewServer(echoHandler(o, ended))
	t.Cleanup(s.Close)
	p := join(t, s.Listener.Addr().String(), o)
	p.ended = ended
	return p
}

// echoHandler echoes on a goroutine of the server.
func echoHandler(o ws.Options, ended chan<- error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := ws.Accept(w, r, o)
		if err == nil {
			err = echo(context.Background(), c)
		}
		ended <- err
	}
}

func openWebConnServer(t *testing.T, o ws.Options) *peer {
	t.Helper()
	ended := make(chan error, 1)
	p := join(t, serve(t, echoHandler(o, ended)), o)
	p.ended = ended
	return p
}

// openTaskServer echoes in a task, on a connection of package stream.
func openTaskServer(t *testing.T, o ws.Options) *peer {
	t.Helper()
	ended := make(chan error, 1)
	address := make(chan string, 1)
	inTask(t, func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		address <- ln.Addr().String()
		accepted, err := ln.AcceptConn()
		if err != nil {
			return err
		}
		ln.Close()
		c, err := ws.AcceptOn(accepted, o)
		if err != nil {
			return err
		}
		ended <- echo(ctx, c)
		return nil
	})
	p := join(t, <-address, o)
	p.ended = ended
	return p
}

// inTask runs a task in the background. The task must end without an error before
// the test ends.
func inTask(t testing.TB, fn func(ctx context.Context) error) {
	t.Helper()
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	go func() {
		done <- spindle.Options{Loop: loop.Options{Watchdog: -1}}.Run(ctx, fn)
	}()
	t.Cleanup(func() {
		defer cancel()
		if err := <-done; err != nil {
			t.Errorf("the task failed: %v", err)
		}
	})
}

// awaitClient accepts the tested client and performs the handshake.
func awaitClient(t *testing.T, ln net.Listener, o ws.Options, ended chan error) *peer {
	t.Helper()
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, nc, false)
	p.ended = ended
	if o.CompressFrom > 0 {
		p.welcome(deflateOffer)
	} else {
		p.welcome()
	}
	return p
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

func openSocketClient(t *testing.T, o ws.Options) *peer {
	t.Helper()
	ln, ended := listen(t), make(chan error, 1)
	steady(t, func(l *loop.Loop) {
		o.OnError = func(err error) { ended <- err }
		ws.Connect(context.Background(), l, "ws://"+ln.Addr().String()+"/", &socketEcho{t: t, ended: ended}, o)
	})
	return awaitClient(t, ln, o, ended)
}

func openConnClient(t *testing.T, o ws.Options) *peer {
	t.Helper()
	ln, ended := listen(t), make(chan error, 1)
	inTask(t, func(ctx context.Context) error {
		c, err := ws.Dial(ctx, "ws://"+ln.Addr().String()+"/", o)
		if err != nil {
			return err
		}
		ended <- echo(ctx, c)
		return nil
	})
	return awaitClient(t, ln, o, ended)
}
