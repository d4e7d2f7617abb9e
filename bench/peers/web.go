package peers

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"

	"github.com/valyala/fasthttp"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
)

// Path is the path of the requests to web servers, and Body the body of their answers. Large has
// 1 MB, Upload takes 1 MB, and Live has the bytes of live objects and stacks.
const (
	Path   = "/plaintext"
	Body   = "Hello, World!"
	Large  = "/large"
	Upload = "/upload"
	Live   = "/live"
)

var large [1 << 20]byte

var answer = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	default:
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, Body)
	case Large:
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Write(large[:])
	case Upload:
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	case Live:
		fmt.Fprint(w, liveBytes())
	}
})

// lean has the same paths. It collects whole bodies, in memory that is used again.
var lean = web.LeanRoutes(map[string]func(*web.LeanCtx){
	Path: func(c *web.LeanCtx) {
		c.AddHeader("Content-Type", "text/plain")
		c.WriteString(Body)
	},
	Large: func(c *web.LeanCtx) {
		c.AddHeader("Content-Type", "application/octet-stream")
		c.Write(large[:])
	},
	Upload: func(c *web.LeanCtx) {
		c.ReadBody(len(large), func(c *web.LeanCtx, body []byte) { fmt.Fprint(c, len(body)) })
	},
	Live: func(c *web.LeanCtx) { fmt.Fprint(c, liveBytes()) },
})

// liveBytes returns the bytes of live objects and of stacks. Other memory goes back to the system.
func liveBytes() uint64 {
	runtime.GC()
	debug.FreeOSMemory() // the second collection, after which pools are empty
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

func serveLean(o Options) error { return serveSpindle(o, &web.Server{Lean: lean}) }

func serveInline(o Options) error { return serveSpindle(o, &web.Server{Handler: web.Inline(answer)}) }

func serveGoroutine(o Options) error { return serveSpindle(o, &web.Server{Handler: answer}) }

func serveSpindle(o Options, s *web.Server) error {
	s.Protocols, s.TLS = o.protocols()
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

// protocols returns what an HTTP server speaks: HTTP/1.1 unless o says otherwise.
func (o Options) protocols() (*http.Protocols, *tls.Config) {
	if !o.TLS && !o.HTTP2 {
		return nil, nil
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!o.HTTP2)
	protocols.SetHTTP2(o.HTTP2)
	protocols.SetUnencryptedHTTP2(o.HTTP2)
	if !o.TLS {
		return protocols, nil
	}
	made := httptest.NewUnstartedServer(nil)
	made.StartTLS()
	defer made.Close()
	config := &tls.Config{Certificates: made.TLS.Certificates, NextProtos: []string{"http/1.1"}}
	if o.HTTP2 {
		config.NextProtos = []string{"h2"}
	}
	return protocols, config
}

func serveNetHTTP(o Options) error {
	s := &http.Server{Handler: answer}
	s.Protocols, s.TLSConfig = o.protocols()
	ln, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return err
	}
	o.Ready(ln.Addr())
	if o.TLS {
		return s.ServeTLS(ln, "", "")
	}
	return s.Serve(ln)
}

func serveFastHTTP(o Options) error {
	ln, err := net.Listen("tcp4", o.Addr)
	if err != nil {
		return err
	}
	o.Ready(ln.Addr())
	if _, config := o.protocols(); config != nil {
		ln = tls.NewListener(ln, config)
	}
	return fasthttp.Serve(ln, func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType("text/plain")
		if string(ctx.Path()) == Live {
			fmt.Fprint(ctx, liveBytes())
			return
		}
		ctx.WriteString(Body)
	})
}
