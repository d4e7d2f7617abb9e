// Package demo is what "spindle serve" serves: endpoints that show each way to run
// a handler, and pages to watch the loop from a browser.
package demo

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

//go:embed index.html chat.html
var pages embed.FS

// NewServer makes the server. The files of dir are served at the root; without
// one there is a page that explains the loop. When ctx ends, streams of events do.
func NewServer(ctx context.Context, dir string) *web.Server {
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
	if dir != "" {
		mux.Handle("/", http.FileServer(http.Dir(dir)))
	} else {
		mux.HandleFunc("GET /{$}", page("index.html"))
	}
	return &web.Server{
		Handler: mux,
		Lean:    web.LeanRoutes(map[string]func(*web.LeanCtx){"/plaintext": leanPlaintext}),
	}
}

func page(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, pages, name) }
}

// The same answer in three ways: in the callback, in a task, on a goroutine.

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

// echo sends the body back as it comes.
func echo(w http.ResponseWriter, r *http.Request) {
	http.NewResponseController(w).EnableFullDuplex()
	if kind := r.Header.Get("Content-Type"); kind != "" {
		w.Header().Set("Content-Type", kind)
	}
	io.Copy(w, r.Body)
}

// delay waits on the loop's timer: any number of requests can.
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

// block does what a task must not do, and, if it is asked to offload, how to do it
// all the same.
func block(w http.ResponseWriter, r *http.Request) {
	d, err := duration(r)
	offload := r.FormValue("offload")
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case offload == "" || offload == "0":
		time.Sleep(d) // everybody on this loop waits
	case offload == "1":
		spindle.Blocking(r.Context(), func() (int, error) { time.Sleep(d); return 0, nil })
	default:
		http.Error(w, "offload must be 0 or 1", http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "blocked %v\n", d)
}

// longest is what a request may ask for.
const longest = 10 * time.Second

func duration(r *http.Request) (time.Duration, error) {
	text := r.FormValue("ms")
	if text == "" {
		return 100 * time.Millisecond, nil
	}
	ms, err := strconv.ParseUint(text, 10, 32)
	d := time.Duration(ms) * time.Millisecond
	if err != nil || d > longest {
		return 0, fmt.Errorf("ms must be a number from 0 to %d", longest/time.Millisecond)
	}
	return d, nil
}

// between is the time from one event to the next.
const between = 500 * time.Millisecond

// events tells, as server-sent events, what the loop that serves them has done. It
// ends with the request, or with the server.
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
		if http.NewResponseController(w).Flush() != nil || spindle.Sleep(ctx, between) != nil {
			return
		}
	}
}

// socketEcho sends every message back.
type socketEcho struct{}

func (socketEcho) OnOpen(*ws.Socket)                                {}
func (socketEcho) OnMessage(s *ws.Socket, kind ws.Kind, msg []byte) { s.Send(kind, msg) }
func (socketEcho) OnClose(*ws.Socket, error)                        {}
