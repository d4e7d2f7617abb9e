// Package demo has the pages and endpoints of "spindle serve": they show each way to run a
// handler, and the loop at work.
package demo

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

//go:embed index.html chat.html
var pages embed.FS

// Options configure the server.
type Options struct {
	Dir       string // its files are served at the root; "" means a page that explains the loop
	Inspector string // the address of an inspector on a loop of its own; "" for none
}

// NewServer returns the server. Event streams end when ctx ends.
func NewServer(ctx context.Context, o Options) *web.Server {
	mux := http.NewServeMux()
	inline := func(pattern string, h http.HandlerFunc) { mux.Handle(pattern, web.Inline(h)) }

	inline("/plaintext-handler", plaintext)
	mux.HandleFunc("/plaintext-goroutine", plaintext)
	inline("/json", writeJSON)
	inline("POST /echo", echo)
	inline("/delay", delay)
	inline("/block", block)
	inline("/events", func(w http.ResponseWriter, r *http.Request) { events(ctx, w, r) })
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) { ws.Upgrade(w, r, socketEcho{}, ws.Options{}) })
	mux.HandleFunc("GET /chat", page("chat.html"))
	mux.Handle("/chat/ws", newRoom())
	mux.Handle("/debug/spindle/", inspector(o.Inspector))
	if o.Dir != "" {
		mux.Handle("/", http.FileServer(http.Dir(o.Dir)))
	} else {
		mux.HandleFunc("GET /{$}", page("index.html"))
	}
	s := &web.Server{
		Handler:   mux,
		Lean:      web.LeanRoutes(map[string]func(*web.LeanCtx){"/plaintext": leanPlaintext}),
		Protocols: new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true) // for clients that know it, such as curl --http2-prior-knowledge
	return s
}

// inspector serves the inspector's API, to this machine only. Its page is at address, where
// it is served by another loop: it must answer while the loops here are blocked.
func inspector(address string) http.Handler {
	h := inspect.Handler(inspect.Options{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if address != "" && r.URL.Path == "/debug/spindle/" && err == nil && peer.Addr().Unmap().IsLoopback() {
			http.Redirect(w, r, "http://"+address+"/", http.StatusFound)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func page(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, pages, name) }
}

// The following handlers send the same answer: in the callback, in a task, on a goroutine.

const hello = "Hello, World!"

func leanPlaintext(c *web.LeanCtx) { c.WriteString(hello) }

func plaintext(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, hello)
}

func writeJSON(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]string{"message": hello})
}

// echo sends the body back as it arrives.
func echo(w http.ResponseWriter, r *http.Request) {
	http.NewResponseController(w).EnableFullDuplex()
	if kind := r.Header.Get("Content-Type"); kind != "" {
		w.Header().Set("Content-Type", kind)
	}
	io.Copy(w, r.Body)
}

// delay waits on the loop's timer, as any number of requests can.
func delay(w http.ResponseWriter, r *http.Request) {
	d, err := duration(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if spindle.Sleep(r.Context(), d) == nil {
		fmt.Fprintf(w, "waited %v\n", d)
	}
}

// block blocks the loop, which a task must not do. With offload=1 it shows the right way: it
// blocks a worker.
func block(w http.ResponseWriter, r *http.Request) {
	d, err := duration(r)
	offload := r.FormValue("offload")
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case offload == "" || offload == "0":
		time.Sleep(d) // blocks everything on this loop
	case offload == "1":
		spindle.Blocking(r.Context(), func() (int, error) { time.Sleep(d); return 0, nil })
	default:
		http.Error(w, "offload must be 0 or 1", http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "blocked %v\n", d)
}

// maxDelay limits the ms parameter.
const maxDelay = 10 * time.Second

func duration(r *http.Request) (time.Duration, error) {
	text := r.FormValue("ms")
	if text == "" {
		return 100 * time.Millisecond, nil
	}
	ms, err := strconv.ParseUint(text, 10, 32)
	d := time.Duration(ms) * time.Millisecond
	if err != nil || d > maxDelay {
		return 0, fmt.Errorf("ms must be a number from 0 to %d", maxDelay/time.Millisecond)
	}
	return d, nil
}

// eventInterval is the time between two events.
const eventInterval = 500 * time.Millisecond

// events sends the statistics of its loop as server-sent events, until the request or the
// server ends.
func events(server context.Context, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	ctx := r.Context()
	l := spindle.LoopOf(ctx)
	for server.Err() == nil {
		s := l.Stats()
		data, err := json.Marshal(map[string]any{
			"turns": s.Turns, "callbacks": s.Callbacks, "events": s.Events, "timersFired": s.TimersFired,
			"timers": s.Timers, "fds": s.FDs, "jobs": s.JobsDone, "lagMicroseconds": s.Lag.Microseconds(),
		})
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "event: stats\ndata: %s\n\n", data); err != nil {
			return
		}
		if http.NewResponseController(w).Flush() != nil || spindle.Sleep(ctx, eventInterval) != nil {
			return
		}
	}
}

// socketEcho sends every message back.
type socketEcho struct{}

func (socketEcho) OnOpen(*ws.Socket)                                {}
func (socketEcho) OnMessage(s *ws.Socket, kind ws.Kind, msg []byte) { s.Send(kind, msg) }
func (socketEcho) OnClose(*ws.Socket, error)                        {}
