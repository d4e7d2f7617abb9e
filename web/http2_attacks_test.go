package web_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/internal/http2attack"
	"github.com/spindleloop/spindle/web"
)

// mostUnderAttack is how much memory a connection of an attacker may take, stacks of its
// handlers included. 250 handlers on goroutines are most of it.
const mostUnderAttack = 6 << 20

// TestHTTP2AttacksAreBounded runs each attack on several connections at the same time, and
// looks at the memory that is in use meanwhile. Another client is answered.
func TestHTTP2AttacksAreBounded(t *testing.T) {
	large := make([]byte, 1<<20)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/large" {
			w.Write(large)
			return
		}
		io.WriteString(w, "ok")
	})
	for name, made := range map[string]func() *web.Server{
		"goroutine": func() *web.Server { return &web.Server{Handler: h} },
		"inline":    func() *web.Server { return &web.Server{Handler: web.Inline(h)} },
		"lean": func() *web.Server {
			return &web.Server{Lean: func(c *web.LeanCtx) bool { c.WriteString("ok"); return true }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range http2attack.All {
				a := &http2attack.All[i]
				t.Run(a.Name, func(t *testing.T) {
					s := made()
					s.ErrorLog = discard()
					sv := serve(t, plainHTTP2(s))
					client := clientHTTP2(t)
					attackAtOnce(t, a, sv, func() {
						if res, _ := get(t, client, url(sv, "/")); res.StatusCode != http.StatusOK {
							t.Errorf("another client gets %v", res.Status)
						}
					})
				})
			}
		})
	}
}

// attackAtOnce attacks on a few connections. It calls another until the attack is over, and
// checks the memory in use after each call.
func attackAtOnce(t *testing.T, a *http2attack.Attack, sv *web.Service, another func()) {
	const conns, steps = 4, 300
	another() // pools and tables
	before, most := liveBytes(), int64(0)
	done := make(chan struct{})
	for range conns {
		nc, err := net.Dial("tcp", sv.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		nc.SetDeadline(time.Now().Add(500 * time.Millisecond)) // ends attackers that wait
		go func() {
			a.Run(nc, steps)
			done <- struct{}{}
		}()
	}
	for left := conns; left > 0; {
		select {
		case <-done:
			left--
		default:
			another()
			most = max(most, liveBytes()-before)
		}
	}
	t.Logf("%d KB for each connection", most/conns>>10)
	if most > conns*mostUnderAttack {
		t.Errorf("%d KB for each connection", most/conns>>10)
	}
}

// TestHTTP2FloodsAreSlowed: a client that only makes work does not take all of a loop's time.
func TestHTTP2FloodsAreSlowed(t *testing.T) {
	const tokens, atOnce = 10_000, 256
	begun := time.Now()
	code := attack(dialPeer(t, calmServer(t, quick)), repeated(appendFrame(nil, pingFrame, 0, 0, make([]byte, 8))))
	if code != http2.EnhanceYourCalm {
		t.Errorf("got %v", code)
	}
	if took, least := time.Since(begun), (tokens/atOnce-1)*http2.HastyPause; took < least {
		t.Errorf("all tokens were spent in %v, want at least %v", took, least)
	}
}

// TestHTTP2RestOfAFloodIsNotRead: after the GOAWAY, the server takes no more than its socket holds.
func TestHTTP2RestOfAFloodIsNotRead(t *testing.T) {
	for name, flood := range map[string][]byte{
		"PING":            appendFrame(nil, pingFrame, 0, 0, make([]byte, 8)),
		"CONTINUATION":    appendFrame(nil, continuationFrame, 0, 1, make([]byte, 16<<10)), // a mistake: there is no header
		"window overflow": appendFrame(nil, windowFrame, 0, 0, number(1<<31-1)),
	} {
		t.Run(name, func(t *testing.T) { floodPast(t, dialPeer(t, calmServer(t, quick)), flood) })
	}
}

// floodPast sends a frame again and again, until the server takes no more.
func floodPast(t *testing.T, p *peer, flood []byte) {
	const atMost = 32 << 20 // more than the buffers of two sockets
	var ended atomic.Bool
	read := make(chan struct{})
	go func() {
		defer close(read)
		for {
			f, err := p.read()
			if err != nil {
				return
			}
			if f.kind == goAwayFrame {
				ended.Store(true)
			}
		}
	}()
	many := bytes.Repeat(flood, max(1, 64<<10/len(flood)))
	after := 0
	for after <= atMost {
		n, err := p.nc.Write(many)
		if ended.Load() {
			after += n
		}
		if err != nil {
			<-read
			break
		}
	}
	if !ended.Load() || after > atMost {
		t.Errorf("the flood was ended: %v; then %d bytes were sent", ended.Load(), after)
	}
}

// liveBytes returns the bytes of live objects and of stacks.
func liveBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestHTTP2DownloadInSmallReads: Go's client returns the window for each 4 KB that is read, on the
// stream and on the connection. That is no flood.
func TestHTTP2DownloadInSmallReads(t *testing.T) {
	const size = 48 << 20
	large := make([]byte, size)
	sv := serve(t, plainHTTP2(&web.Server{Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(large) }))}))
	res, err := clientHTTP2(t).Get(url(sv, "/"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, res.Body, make([]byte, 4<<10)); n != size || err != nil {
		t.Errorf("got %d bytes, %v", n, err)
	}
}

// TestHTTP2LargeHeaderIsRefused: a header above a large limit is answered, and other streams go on.
// The peer sends frames itself, because a client that has seen the limit does not send the header.
func TestHTTP2LargeHeaderIsRefused(t *testing.T) {
	p := dialPeer(t, serve(t, plainHTTP2(&web.Server{Handler: quick, MaxHeaderBytes: 1 << 20})))
	const largest = 16 << 10 // piece in a frame
	block := p.request("GET", "/", "x-large", strings.Repeat("x", 1200<<10))
	p.send(headersFrame, endStream, 1, block[:largest])
	for block = block[largest:]; len(block) > largest; block = block[largest:] {
		p.send(continuationFrame, 0, 1, block[:largest])
	}
	p.send(continuationFrame, endHeaders, 1, block)
	if fields, _ := p.response(1); !strings.Contains(fields, ":status: 431\n") {
		t.Errorf("got %v", fields)
	}
	p.send(headersFrame, endStream|endHeaders, 3, p.request("GET", "/"))
	if fields, body := p.response(3); !strings.Contains(fields, ":status: 200\n") || body != "ok" {
		t.Errorf("got %v, %q", fields, body)
	}
}

// TestHTTP2AnswersToNoPing: answers to PINGs that were not sent are a flood like others.
func TestHTTP2AnswersToNoPing(t *testing.T) {
	const ack = 1
	code := attack(dialPeer(t, calmServer(t, quick)), repeated(appendFrame(nil, pingFrame, ack, 0, []byte("spindle!"))))
	if code != http2.EnhanceYourCalm {
		t.Errorf("got %v", code)
	}
}
