package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/deferred"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
)

// counting answers a deferred request by what became of its body.
type counting struct {
	answer deferred.Answer
	after  func(time.Duration, func())
	n      int
	err    error
}

func (c *counting) Data(p []byte) bool { c.n += len(p); return false }
func (c *counting) End()               { c.respond() }
func (c *counting) Failed(err error)   { c.err = err; c.respond() }
func (*counting) Gone(error)           {}
func (*counting) Lost()                {}
func (*counting) Writable()            {}

func (c *counting) respond() {
	c.after(0, func() {
		text := fmt.Sprintf("%d %v", c.n, c.err)
		c.answer.Write(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
		c.answer.Finish(false)
	})
}

// TestDeferredBodyIsTimedByItsProgress checks that a steady upload may take long, that one that stops may not, and
// that a client which waits for a 100 is not late.
func TestDeferredBodyIsTimedByItsProgress(t *testing.T) {
	for _, tt := range []struct {
		name, fields string
		pause        time.Duration // before each byte
		wait         time.Duration // before a 100
		want         string
	}{
		{name: "steady", pause: 19 * time.Second, want: "10 <nil>"},
		{name: "stops", pause: 21 * time.Second, want: "0 web: the client took too long"},
		{name: "waits for a 100", fields: "Expect: 100-continue\r\n", wait: time.Minute, pause: 19 * time.Second, want: "10 <nil>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := &web.Server{BodyTimeout: 20 * time.Second, Lean: func(lc *web.LeanCtx) bool {
				l := lc.Conn().Loop()
				c := &counting{after: func(d time.Duration, fn func()) { l.CallLater(d, fn) }}
				c.answer = lc.Defer(c)
				if tt.wait > 0 {
					c.after(tt.wait, c.answer.Continue)
				}
				return true
			}}
			w := sim.NewWorld(1)
			host, client := w.Host("server"), w.Host("client")
			host.Serve(func(ctx context.Context) error { return server.ListenAndServe(ctx, ":80") })
			client.Go(func(ctx context.Context) error {
				c, err := stream.Dial(ctx, "tcp", "server:80")
				if err != nil {
					return err
				}
				defer c.Close()
				br := bufio.NewReader(c)
				io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n"+tt.fields+"\r\n")
				if tt.wait > 0 {
					if line, err := br.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
						return fmt.Errorf("%q, %v", line, err)
					}
					br.ReadString('\n')
				}
				for range 10 {
					if err := spindle.Sleep(ctx, tt.pause); err != nil {
						return err
					}
					io.WriteString(c, "x") // fails after the answer to a body that is late
				}
				res, err := http.ReadResponse(br, nil)
				if err != nil {
					return err
				}
				got, err := io.ReadAll(res.Body)
				if string(got) != tt.want {
					return fmt.Errorf("got %q, %v; want %q", got, err, tt.want)
				}
				return nil
			})
			if err := w.Run(); err != nil {
				t.Error(err)
			}
		})
	}
}
