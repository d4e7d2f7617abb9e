package web_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/web"
)

// TestHTTP2TunnelHalfCloses: a tunnel that has ended its sending before the window took all of
// it still receives.
func TestHTTP2TunnelHalfCloses(t *testing.T) {
	t.Parallel()
	received, closed := make(chan string, 1), make(chan struct{})
	sv := serve(t, plainHTTP2(&web.Server{ExtendedConnect: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		nc, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		nc.SetReadDeadline(time.Now().Add(20 * time.Second))
		go io.WriteString(nc, strings.Repeat("x", 1000)) // waits for the window
		nc.Read(make([]byte, 1))
		nc.(interface{ CloseWrite() error }).CloseWrite()
		close(closed)
		rest, err := io.ReadAll(nc)
		if err != nil {
			t.Error(err)
		}
		received <- string(rest)
	})}))
	p := dialPeer(t, sv, 4, 10)
	p.send(headersFrame, endHeaders, 1, p.block(":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/a", ":authority", "b"))
	if f := p.until(dataFrame); len(f.payload) != 10 {
		t.Fatalf("got %q", f.payload)
	}
	p.send(dataFrame, 0, 1, []byte("1"))
	<-closed // before the window takes the rest
	p.send(windowFrame, 0, 1, number(1<<20))
	for got := 10; got < 1000; {
		f := p.next()
		if f.kind == resetFrame {
			t.Fatalf("the stream is reset with %v", f.code())
		}
		if f.kind == dataFrame {
			got += len(f.payload)
		}
	}
	p.send(dataFrame, endStream, 1, []byte("late"))
	if got := <-received; got != "late" {
		t.Errorf("got %q", got)
	}
}

// TestDeferredStreamCountsOnce: an answer that is aborted and then finished was one handler.
func TestDeferredStreamCountsOnce(t *testing.T) {
	s := &laterServer{}
	p := dialPeer(t, serveLaterStreams(t, s, &web.Server{HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 2}}))
	p.send(headersFrame, endStream|endHeaders, 1, p.request("GET", "/1"))
	s.wait("/1 end")
	s.do(t, "/1", func(l *later) {
		l.answer.Abort()
		l.answer.Finish(false)
	})
	p.until(resetFrame)
	for _, id := range []uint32{3, 5} {
		p.send(headersFrame, endStream|endHeaders, id, p.request("GET", "/"+string(rune('0'+id))))
		p.send(resetFrame, 0, id, number(8))
	}
	s.wait("/5 lost")
	p.send(headersFrame, endStream|endHeaders, 7, p.request("GET", "/7"))
	if f := p.until(resetFrame); f.id != 7 || f.code() != http2.RefusedStream {
		t.Errorf("got %+v", f)
	}
}

// TestHTTP2IdleAfterALargeAnswer: the last of an answer is sent when the client reads, and the
// connection has its idle time-out then.
func TestHTTP2IdleAfterALargeAnswer(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	large := make([]byte, size)
	sv := serve(t, plainHTTP2(&web.Server{IdleTimeout: 500 * time.Millisecond, Lean: func(c *web.LeanCtx) bool { c.Write(large); return true }}))
	p := dialPeer(t, sv, 4, 1<<31-1)
	p.send(windowFrame, 0, 0, number(1<<30))
	p.send(headersFrame, endStream|endHeaders, 1, p.request("GET", "/"))
	if _, body := p.response(1); len(body) != size {
		t.Fatalf("got %d bytes", len(body))
	}
	if code := p.ended(); code != http2.NoError {
		t.Errorf("got %v", code)
	}
}

// TestTransportHTTP2IdleAfterAnUpload: the response is there before the upload has ended, and
// the connection has its idle time-out afterwards.
func TestTransportHTTP2IdleAfterAnUpload(t *testing.T) {
	t.Parallel()
	codes := make(chan http2.Code, 1)
	base := h2script(t, func(n int, p *peer) {
		id := p.head()
		p.answer(id, "early")
		p.send(windowFrame, 0, 0, number(1<<20))
		p.send(windowFrame, 0, id, number(1<<20))
		codes <- p.ended()
	})
	tasks(t, func(ctx context.Context) {
		c := &http.Client{Transport: &web.Transport{Protocols: h2c(), IdleTimeout: time.Millisecond}}
		if _, got, err := do(ctx, c, "POST", base, strings.NewReader(strings.Repeat("x", 300_000))); got != "early" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		code, _ := spindle.Blocking(ctx, func() (http2.Code, error) { return <-codes, nil })
		if code != http2.NoError {
			t.Errorf("got %v", code)
		}
	})
}

// TestTransportHTTP2WriteByteTimeout: a server that reads nothing fails an upload.
func TestTransportHTTP2WriteByteTimeout(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	base := h2script(t, func(n int, p *peer) {
		p.send(settingsFrame, 0, 0, append([]byte{0, 4}, number(1<<31-1)...))
		p.send(windowFrame, 0, 0, number(1<<30))
		<-done
	})
	tasks(t, func(ctx context.Context) {
		defer close(done)
		c := &http.Client{Transport: &web.Transport{Protocols: h2c(), HTTP2: &http.HTTP2Config{WriteByteTimeout: 50 * time.Millisecond}}}
		err := spindle.FailAfter(ctx, 20*time.Second, func(ctx context.Context) error {
			_, _, err := do(ctx, c, "POST", base, &endless{})
			return err
		})
		if !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
