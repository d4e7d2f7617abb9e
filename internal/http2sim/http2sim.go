// Package http2sim has a world in which a client and a server of HTTP/2 meet: uploads, downloads
// with priorities, and a drain while requests are under way. It fails if a stream gets stuck,
// a body is wrong, an urgent response waits for another one, or a request is lost.
package http2sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
)

// bodySize is more than the windows of both sides.
const bodySize = 400 << 10

// Streams is a world with a server that drains after a while.
func Streams(w *sim.World) {
	server, client := w.Host("server"), w.Host("client")
	w.Link(server, client).Set(sim.LinkOptions{Latency: sim.Uniform(time.Millisecond, 20*time.Millisecond), Dribble: 0.2})
	server.Serve(serve)
	client.Go(func(ctx context.Context) error {
		return spindle.FailAfter(ctx, time.Minute, talk)
	})
}

func serve(ctx context.Context) error {
	s := &web.Server{Handler: web.Inline(http.HandlerFunc(answer)), Protocols: new(http.Protocols)}
	s.Protocols.SetUnencryptedHTTP2(true)
	sv, err := s.Listen(spindle.LoopOf(ctx), "tcp", ":80")
	if err != nil {
		return err
	}
	if err := spindle.Sleep(ctx, 3*time.Second); err != nil {
		return err
	}
	return sv.Shutdown(ctx)
}

func answer(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/up":
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	case "/down":
		io.WriteString(w, strings.Repeat("x", bodySize))
	default:
		io.WriteString(w, "ok")
	}
}

// peer is the client: one task that reads, and sends what that leads to.
type peer struct {
	c     *stream.Conn
	fc    *http2.Conn
	calls []*call // not answered yet
	over  []*call // answered, in the order of their ends
	bye   bool    // the server has said its first GOAWAY
}

// call is a request.
type call struct {
	http2.Stream
	path   string
	unsent int // bytes of the body
	got    []byte
	status int
}

func talk(ctx context.Context) error {
	c, err := stream.Dial(ctx, "tcp", "server:80")
	if err != nil {
		return err
	}
	defer c.Close()
	shared := http2.NewShared(http2.Config{Role: http2.Client, StreamWindow: 64 << 10, ConnWindow: 64 << 10})
	p := &peer{c: c, fc: shared.NewConn(nil)}
	late, urgent := p.ask("GET", "/down", "u=7"), p.ask("GET", "/down", "u=0")
	for range 3 {
		p.ask("POST", "/up", "")
	}
	if err := p.until(func() bool { return len(p.calls) == 0 }); err != nil {
		return err
	}
	if err := p.check(late, urgent); err != nil {
		return err
	}
	for !p.bye { // until the server drains
		p.ask("GET", "/", "")
		if err := p.turn(); err != nil {
			return p.lost(err)
		}
	}
	for len(p.calls) > 0 {
		if err := p.turn(); err != nil {
			return p.lost(err)
		}
	}
	return nil
}

// ask begins a request.
func (p *peer) ask(method, path, priority string) *call {
	b := http2.AppendPseudo(nil, ":method", method)
	b = http2.AppendPseudo(b, ":scheme", "http")
	b = http2.AppendPseudo(b, ":authority", "server")
	b = http2.AppendPseudo(b, ":path", path)
	if priority != "" {
		b, _ = http2.AppendField(b, "priority", priority)
	}
	c := &call{path: path}
	c.Owner = c
	if method == "POST" {
		c.unsent = bodySize
	}
	p.fc.Request(&c.Stream, b, c.unsent == 0)
	p.calls = append(p.calls, c)
	return c
}

// check checks the answers to the first requests.
func (p *peer) check(late, urgent *call) error {
	for _, c := range p.over {
		want := strings.Repeat("x", bodySize)
		if c.path == "/up" {
			want = fmt.Sprint(bodySize, nil)
		}
		if c.status != 200 || string(c.got) != want {
			return fmt.Errorf("%s: status %d and %d bytes", c.path, c.status, len(c.got))
		}
		if c == late {
			return errors.New("the response that is less urgent ended first")
		}
		if c == urgent {
			break
		}
	}
	return nil
}

// lost returns the error for a connection that has ended. Requests that the last GOAWAY
// refused may be unanswered.
func (p *peer) lost(err error) error {
	for _, c := range p.calls {
		if c.ID() <= p.fc.LastID() {
			return fmt.Errorf("request %d is lost: %w", c.ID(), err)
		}
	}
	return nil
}

func (p *peer) until(over func() bool) error {
	for !over() {
		if err := p.turn(); err != nil {
			return err
		}
	}
	return nil
}

// turn sends what can be sent, and handles what comes next.
func (p *peer) turn() error {
	for _, c := range p.calls {
		if n := min(p.fc.Room(&c.Stream), c.unsent); n > 0 {
			c.unsent -= n
			p.fc.SendData(&c.Stream, make([]byte, n), c.unsent == 0)
		}
	}
	if _, err := p.c.Write(p.fc.Out); err != nil {
		return err
	}
	p.fc.Out = p.fc.Out[:0]
	buf := make([]byte, 16<<10)
	n, err := p.c.Read(buf)
	if err != nil {
		return err
	}
	return p.parse(buf[:n])
}

func (p *peer) parse(data []byte) error {
	for {
		n, event, err := p.fc.Parse(data)
		if err != nil {
			return err
		}
		data = data[n:]
		switch event {
		case http2.More:
			return nil
		case http2.Head:
			c := p.fc.Stream().Owner.(*call)
			if c.status = p.fc.Head().Status; p.fc.Ends() {
				p.ended(c)
			}
		case http2.Data:
			c := p.fc.Stream().Owner.(*call)
			c.got = append(c.got, p.fc.Data()...)
			p.fc.Consume(&c.Stream, len(p.fc.Data()))
		case http2.End:
			p.ended(p.fc.Stream().Owner.(*call))
		case http2.Reset, http2.Failed:
			return fmt.Errorf("stream %d was reset: %v", p.fc.Stream().ID(), p.fc.Code())
		case http2.Goodbye:
			p.bye = true
		}
	}
}

func (p *peer) ended(c *call) {
	for i, o := range p.calls {
		if o == c {
			p.calls = append(p.calls[:i], p.calls[i+1:]...)
		}
	}
	p.over = append(p.over, c)
}
