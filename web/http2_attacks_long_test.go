package web_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/http2attack"
	"github.com/spindleloop/spindle/web"
)

// TestHTTP2LongAttacksAreBounded repeats each attack, on a few connections that are made again when they end, for the
// time in SPINDLE_HTTP2_ATTACKS. The memory in use stays below the limit of TestHTTP2AttacksAreBounded.
func TestHTTP2LongAttacksAreBounded(t *testing.T) {
	limit, err := time.ParseDuration(os.Getenv("SPINDLE_HTTP2_ATTACKS"))
	if err != nil {
		t.Skip("without SPINDLE_HTTP2_ATTACKS, the time for each attack")
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	for i := range http2attack.All {
		a := &http2attack.All[i]
		t.Run(a.Name, func(t *testing.T) {
			sv := serve(t, plainHTTP2(&web.Server{Handler: web.Inline(h), ErrorLog: discard()}))
			client := clientHTTP2(t)
			another := func() {
				if res, _ := get(t, client, url(sv, "/")); res.StatusCode != http.StatusOK {
					t.Errorf("another client gets %v", res.Status)
				}
			}
			another() // pools and tables
			const conns = 4
			before, most, end := liveBytes(), int64(0), time.Now().Add(limit)
			var all sync.WaitGroup
			for range conns {
				all.Go(func() {
					for time.Now().Before(end) {
						nc, err := net.Dial("tcp", sv.Addr().String())
						if err != nil {
							t.Error(err)
							return
						}
						nc.SetDeadline(end)
						a.Run(nc, 1<<30)
					}
				})
			}
			for time.Now().Before(end) {
				another()
				most = max(most, liveBytes()-before)
			}
			all.Wait()
			t.Logf("%d KB for each connection", most/conns>>10)
			if most > conns*mostUnderAttack {
				t.Errorf("%d KB for each connection", most/conns>>10)
			}
		})
	}
}
