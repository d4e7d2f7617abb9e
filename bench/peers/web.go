package peers

import (
	"context"
	"io"
	"net"
	"net/http"

	"github.com/valyala/fasthttp"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
)

// Path is the path of the requests to web servers, and Body the body of their answers.
const (
	Path = "/plaintext"
	Body = "Hello, World!"
)

var answer = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, Body)
})

func serveLean(o Options) error {
	return serveSpindle(o, &web.Server{Lean: web.LeanRoutes(map[string]func(*web.LeanCtx){
		Path: func(c *web.LeanCtx) {
			c.SetContentType("text/plain")
			c.WriteString(Body)
		},
	})})
}

func serveInline(o Options) error { return serveSpindle(o, &web.Server{Handler: web.Inline(answer)}) }

func serveGoroutine(o Options) error { return serveSpindle(o, &web.Server{Handler: answer}) }

func serveSpindle(o Options, s *web.Server) error {
	l, err := loop.New(loop.Options{})
	if err != nil {
		return err
	}
	defer l.Close()
	sv, err := s.Listen(l, "tcp", o.Addr)
	if err != nil {
		return err
	}
	o.Ready(sv.Addr())
	return l.Run(context.Background())
}

func serveNetHTTP(o Options) error {
	ln, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return err
	}
	o.Ready(ln.Addr())
	return http.Serve(ln, answer)
}

func serveFastHTTP(o Options) error {
	ln, err := net.Listen("tcp4", o.Addr)
	if err != nil {
		return err
	}
	o.Ready(ln.Addr())
	return fasthttp.Serve(ln, func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType("text/plain")
		ctx.WriteString(Body)
	})
}
