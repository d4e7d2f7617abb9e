package web_test

import (
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/internal/http2attack"
	"github.com/spindleloop/spindle/web"
)

// mostUnderAttack is how much memory a connection of an attacker may take, stacks of its
// handlers included. 250 handlers on goroutines are most of it.
const mostUnderAttack = 4 << 20

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
		"lean":      func() *web.Server { return &web.Server{Lean: func(c *web.LeanCtx) bool { c.WriteString("ok"); return true }} },
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

// TestDroppedBytesAreSlow: a client that floods a connection after its end does not keep the
// loop busy.
func TestDroppedBytesAreSlow(t *testing.T) {
	p := dialPeer(t, calmServer(t, quick))
	p.send(windowFrame, 0, 0, number(1<<31-1))
	if code := p.until(goAwayFrame).code(); code != http2.FlowControlError {
		t.Fatalf("got %v", code)
	}
	sent, piece := 0, make([]byte, 64<<10)
	for {
		n, err := p.nc.Write(piece)
		if sent += n; err != nil {
			break
		}
	}
	if sent > 128<<20 {
		t.Errorf("%d MB were dropped", sent>>20)
	}
}

// liveBytes returns the bytes of live objects and of stacks.
func liveBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
