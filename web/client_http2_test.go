package web_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/web"
)

// h2c are the protocols of a client or server that speaks only HTTP/2, without TLS.
func h2c() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// h2both are the protocols of TLS.
func h2both() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	return p
}

// bothHTTP2 is both for servers of HTTP/2 without TLS. It counts connections.
func bothHTTP2(t *testing.T, h http.HandlerFunc, test func(t *testing.T, base string, conns *atomic.Int32)) {
	t.Run("net", func(t *testing.T) {
		var n atomic.Int32
		s := httptest.NewUnstartedServer(h)
		s.Config.Protocols = h2c()
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				n.Add(1)
			}
		}
		s.Start()
		defer s.Close()
		test(t, s.URL, &n)
	})
	t.Run("web", func(t *testing.T) {
		var n atomic.Int32
		s := &web.Server{Handler: h, Protocols: h2c()}
		s.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				n.Add(1)
			}
		}
		test(t, url(serve(t, s), ""), &n)
	})
}

func TestTransportHTTP2MatchesNetHTTP(t *testing.T) {
	t.Parallel()
	bothHTTP2(t, everything, func(t *testing.T, base string, _ *atomic.Int32) {
		compareTransports(t, base, &http.Transport{Protocols: h2c()}, &web.Transport{Protocols: h2c()})
	})
	server, trust := certified(t)
	t.Run("TLS", func(t *testing.T) {
		sv := serve(t, &web.Server{Handler: http.HandlerFunc(everything), TLS: server})
		compareTransports(t, "https://"+sv.Addr().String(), &http.Transport{TLSClientConfig: trust.Clone(), Protocols: h2both()}, &web.Transport{TLS: trust})
	})
}

// TestTransportHTTP2SharesAConnection makes many requests at once on one connection.
func TestTransportHTTP2SharesAConnection(t *testing.T) {
	t.Parallel()
	bothHTTP2(t, everything, func(t *testing.T, base string, conns *atomic.Int32) {
		tasks(t, func(ctx context.Context) {
			c := &http.Client{Transport: &web.Transport{Protocols: h2c()}}
			what := block(100_000)
			err := spindle.ForEach(ctx, 40, make([]int, short.Of(60)), func(ctx context.Context, _ int) error {
				res, got, err := do(ctx, c, "POST", base+"/echo", bytes.NewReader(what))
				if err == nil && (!strings.HasPrefix(got, "100000 <nil>") || res.Proto != "HTTP/2.0") {
					err = fmt.Errorf("got %q with %s", got, res.Proto)
				}
				if err != nil {
					return err
				}
				if _, got, err = do(ctx, c, "GET", base+"/long", nil); err == nil && got != string(block(1<<20)) {
					err = errors.New("a download is wrong")
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
		if n := conns.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// TestTransportHTTP2ByALPN speaks HTTP/2 with a server that does, HTTP/1.1 with one that does
// not, and HTTP/1.1 for an upgrade.
func TestTransportHTTP2ByALPN(t *testing.T) {
	t.Parallel()
	server, trust := certified(t)
	proto := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })
	two := serve(t, &web.Server{Handler: proto, TLS: server})
	one := &web.Server{Handler: proto, TLS: server, Protocols: new(http.Protocols)}
	one.Protocols.SetHTTP1(true)
	old := serve(t, one)
	tasks(t, func(ctx context.Context) {
		only2 := new(http.Protocols)
		only2.SetHTTP2(true)
		tr := &web.Transport{TLS: trust}
		for _, step := range []struct {
			tr     *web.Transport
			sv     *web.Service
			header []string
			want   string
		}{
			{tr, two, nil, "HTTP/2.0"},
			{tr, two, []string{"Connection", "Upgrade", "Upgrade", "other"}, "HTTP/1.1"},
			{tr, old, nil, "HTTP/1.1"},
			{tr, old, nil, "HTTP/1.1"},
			{&web.Transport{TLS: trust, Protocols: only2}, two, nil, "HTTP/2.0"},
			{&web.Transport{TLS: trust, Protocols: only2}, old, nil, ""},
		} {
			_, got, err := do(ctx, &http.Client{Transport: step.tr}, "GET", "https://"+step.sv.Addr().String(), nil, step.header...)
			if got != step.want || (err == nil) != (step.want != "") {
				t.Errorf("got %q, %v, want %q", got, err, step.want)
			}
		}
	})
}

// h2script is a server that says what a test wants on each connection, after the preface.
func h2script(t testing.TB, talk func(n int, p *peer)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveOne := func(n int) bool {
		nc, err := ln.Accept()
		if err != nil {
			return false
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(30 * time.Second))
		p := &peer{t: t, nc: nc, br: bufio.NewReader(nc), dec: hpack.NewDecoder(4096, nil)}
		p.enc = hpack.NewEncoder(&p.buf)
		if _, err := io.ReadFull(p.br, make([]byte, len(http2.Preface))); err == nil {
			p.send(settingsFrame, 0, 0, nil)
			talk(n, p)
		}
		return true
	}
	ended := make(chan bool)
	go func() {
		defer close(ended)
		defer ln.Close() // a script that fails exits the goroutine, and clients must not wait then
		for n := 1; serveOne(n); n++ {
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-ended
	})
	return "http://" + ln.Addr().String()
}

// head receives a request, and returns its stream. If there is none, the test fails and the script ends.
func (p *peer) head() uint32 {
	p.t.Helper()
	id, err := p.awaitHead()
	if err != nil {
		p.t.Errorf("waiting for a request: %v", err)
		runtime.Goexit()
	}
	return id
}

// awaitHead receives a request, or the end of the connection.
func (p *peer) awaitHead() (id uint32, err error) {
	for {
		if f, err := p.read(); err != nil || f.kind == headersFrame {
			return f.id, err
		}
	}
}

func (p *peer) answer(id uint32, body string) {
	p.send(headersFrame, endHeaders, id, p.block(":status", "200"))
	p.send(dataFrame, endStream, id, []byte(body))
}

// drainReads reads until the client closes the connection.
func (p *peer) drainReads() { io.Copy(io.Discard, p.br) }

// TestTransportHTTP2RepeatsRefusedRequests, also with a body and an unsafe method.
func TestTransportHTTP2RepeatsRefusedRequests(t *testing.T) {
	t.Parallel()
	base := h2script(t, func(n int, p *peer) {
		id := p.head()
		p.send(resetFrame, 0, id, number(uint32(http2.RefusedStream)))
		p.answer(p.head(), "again")
		p.drainReads()
	})
	tasks(t, func(ctx context.Context) {
		c := &http.Client{Transport: &web.Transport{Protocols: h2c()}}
		if _, got, err := do(ctx, c, "POST", base, strings.NewReader("x")); got != "again" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// TestTransportHTTP2GoAwayLosesNothing: the server answers one of three requests and leaves.
func TestTransportHTTP2GoAwayLosesNothing(t *testing.T) {
	t.Parallel()
	base := h2script(t, func(n int, p *peer) {
		if n > 1 {
			for range 2 {
				p.answer(p.head(), "later")
			}
			p.drainReads()
			return
		}
		first := p.head()
		p.head()
		p.head()
		p.send(goAwayFrame, 0, 0, append(number(1<<31-1), number(0)...))
		p.send(goAwayFrame, 0, 0, append(number(first), number(0)...))
		p.answer(first, "first")
		p.drainReads()
	})
	tasks(t, func(ctx context.Context) {
		c := &http.Client{Transport: &web.Transport{Protocols: h2c()}}
		got, err := spindle.Map(ctx, 3, []string{"POST", "POST", "GET"}, func(ctx context.Context, method string) (string, error) {
			_, text, err := do(ctx, c, method, base, nil)
			return text, err
		})
		if fmt.Sprint(got) != "[first later later]" || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

// TestTransportHTTP2CancelResetsTheStream and leaves the connection to other requests.
func TestTransportHTTP2CancelResetsTheStream(t *testing.T) {
	t.Parallel()
	codes, arrived := make(chan http2.Code, 3), make(chan struct{})
	base := h2script(t, func(n int, p *peer) {
		p.send(pingFrame, 0, 0, make([]byte, 8)) // the answer says that the connection is used
		for i := range 3 {
			id := p.head()
			if i == 0 {
				close(arrived)
			} else { // the beginning of a body
				p.send(headersFrame, endHeaders, id, p.block(":status", "200"))
				p.send(dataFrame, 0, id, []byte("begun"))
			}
			codes <- p.until(resetFrame).code()
		}
		p.answer(p.head(), "fine")
		p.drainReads()
	})
	tasks(t, func(ctx context.Context) {
		c := &http.Client{Transport: &web.Transport{Protocols: h2c()}}
		waiting, leave := context.WithCancel(ctx)
		go func() {
			<-arrived
			leave()
		}()
		if _, _, err := do(waiting, c, "GET", base, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		begin := func(ctx context.Context) *http.Response {
			req, _ := http.NewRequestWithContext(ctx, "GET", base, nil)
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if got := make([]byte, 5); true {
				if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != "begun" {
					t.Errorf("got %q, %v", got, err)
				}
			}
			return res
		}
		begin(ctx).Body.Close()
		derived, cancel := context.WithCancel(ctx)
		res := begin(derived)
		cancel()
		if _, err := res.Body.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if _, got, err := do(ctx, c, "GET", base, nil); got != "fine" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
	for range 3 {
		if code := <-codes; code != http2.Cancel {
			t.Errorf("got %v", code)
		}
	}
}

// TestTransportHTTP2StreamLimit opens another connection where the server's limit is reached,
// or waits if it is strict.
func TestTransportHTTP2StreamLimit(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		var conns, running, most atomic.Int32
		s := &web.Server{Protocols: h2c(), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 4}}
		s.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				conns.Add(1)
			}
		}
		s.Handler = web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			most.Store(max(most.Load(), running.Add(1)))
			spindle.Sleep(r.Context(), 5*time.Millisecond)
			running.Add(-1)
			io.WriteString(w, "ok")
		}))
		base := url(serve(t, s), "")
		tasks(t, func(ctx context.Context) {
			c := &http.Client{Transport: &web.Transport{Protocols: h2c(), HTTP2: &http.HTTP2Config{StrictMaxConcurrentRequests: strict}}}
			get := func(ctx context.Context, _ int) error {
				_, got, err := do(ctx, c, "GET", base, nil)
				if err == nil && got != "ok" {
					err = fmt.Errorf("got %q", got)
				}
				return err
			}
			if err := get(ctx, 0); err != nil { // the client knows the limit now
				t.Fatal(err)
			}
			if err := spindle.ForEach(ctx, 20, make([]int, 40), get); err != nil {
				t.Error(err)
			}
		})
		if n := conns.Load(); strict && (n != 1 || most.Load() > 4) || !strict && n < 3 {
			t.Errorf("strict %v: %d connections, %d requests at once", strict, n, most.Load())
		}
	}
}

// TestTransportHTTP2HealthPing gives up a server that does not answer a ping.
func TestTransportHTTP2HealthPing(t *testing.T) {
	t.Parallel()
	base := h2script(t, func(n int, p *peer) { p.drainReads() })
	tasks(t, func(ctx context.Context) {
		c := &http.Client{Transport: &web.Transport{Protocols: h2c(), HTTP2: &http.HTTP2Config{SendPingTimeout: 20 * time.Millisecond, PingTimeout: 20 * time.Millisecond}}}
		_, _, err := do(ctx, c, "GET", base, nil)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
