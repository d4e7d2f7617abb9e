// Command webchat is a chat room in the browser: a page, and a WebSocket for each guest.
// Each message is framed once and sent to all guests.
//
//	go run ./examples/webchat
//	open http://127.0.0.1:8080        (in several windows)
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "`ADDRESS` to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	if err := run(ctx, *addr, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "webchat:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. Then it closes the sockets and waits a few seconds for them.
func run(ctx context.Context, addr string, out io.Writer) error {
	return spindle.Run(ctx, func(ctx context.Context) error {
		r := &room{guests: map[*ws.Socket]string{}}
		sv, err := (&web.Server{Handler: web.Inline(r)}).Listen(spindle.LoopOf(ctx), "tcp", addr)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "listening on", sv.Addr())
		ended := spindle.Sleep(ctx, math.MaxInt64)
		for guest := range r.guests {
			guest.Close(ws.GoingAway, "the server ends")
		}
		return errors.Join(ended, spindle.Grace(ctx, 5*time.Second, sv.Shutdown))
	})
}

// room holds the guests and their names. Everything runs on one loop, so it needs no lock.
type room struct{ guests map[*ws.Socket]string }

//go:embed page.html
var page []byte

// options disconnect a guest that reads too slowly or does not answer pings.
var options = ws.Options{MessageLimit: 4 << 10, UnsentLimit: 256 << 10, PingInterval: 30 * time.Second, CompressFrom: 512}

// ServeHTTP serves the page, and the WebSocket that it opens at the same address.
func (r *room) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Header.Get("Upgrade") != "" {
		ws.Upgrade(w, req, r, options)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(page)
}

func (r *room) OnOpen(s *ws.Socket) { r.guests[s] = "" }

// OnMessage uses the first message as the guest's name.
func (r *room) OnMessage(s *ws.Socket, _ ws.Kind, message []byte) {
	if name := r.guests[s]; name != "" {
		r.say("%s: %s", name, message)
		return
	}
	r.guests[s] = string(message)
	r.say("* %s has come", message)
}

func (r *room) OnClose(s *ws.Socket, _ error) {
	name := r.guests[s]
	delete(r.guests, s)
	if name != "" {
		r.say("* %s has left", name)
	}
}

func (r *room) say(format string, args ...any) {
	m := ws.Prepare(ws.Text, fmt.Appendf(nil, format, args...))
	for guest := range r.guests {
		guest.SendPrepared(m) // disconnects a guest that is too slow
	}
}
