package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"

	"github.com/spindleloop/spindle/bench/h2load"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
)

var large = make([]byte, 1<<20)

var answer = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/large":
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Write(large)
	case "/upload":
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	case "/live":
		fmt.Fprint(w, liveBytes())
	default:
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "Hello, World!")
	}
})

// liveBytes returns the bytes of live objects and of stacks.
func liveBytes() uint64 {
	runtime.GC()
	runtime.GC() // pools are empty after two
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

func answerLean(c *web.LeanCtx) bool {
	switch string(c.Path()) {
	case "/large":
		c.SetContentType("application/octet-stream")
		c.Write(large)
	case "/upload":
		c.ReadBody(len(large), func(c *web.LeanCtx, body []byte) { fmt.Fprint(c, len(body)) })
	case "/live":
		fmt.Fprint(c, liveBytes())
	default:
		c.SetContentType("text/plain")
		c.WriteString("Hello, World!")
	}
	return true
}

// serve runs a server. It prints its address.
func serve(kind string) error {
	runtime.GOMAXPROCS(1)
	var config *tls.Config
	if load.TLS {
		made := httptest.NewUnstartedServer(nil)
		made.StartTLS()
		config = &tls.Config{Certificates: made.TLS.Certificates, NextProtos: []string{"h2"}}
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &web.Server{Protocols: protocols, TLS: config}
	switch kind {
	case "net/http":
		return serveNetHTTP(&http.Server{Handler: answer, Protocols: protocols, TLSConfig: config})
	case "goroutine":
		s.Handler = answer
	case "inline":
		s.Handler = web.Inline(answer)
	case "lean":
		s.Lean = answerLean
	default:
		return fmt.Errorf("unknown server %q", kind)
	}
	l, err := loop.New(loop.Options{Watchdog: -1})
	if err != nil {
		return err
	}
	sv, err := s.Listen(l, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(h2load.Announcement + sv.Addr().String())
	return l.Run(context.Background())
}

func serveNetHTTP(s *http.Server) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(h2load.Announcement + ln.Addr().String())
	if s.TLSConfig != nil {
		return s.ServeTLS(ln, "", "")
	}
	return s.Serve(ln)
}
