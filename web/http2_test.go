package web_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/web"
)

func TestHTTP2EveryKindOfHandlerAnswers(t *testing.T) {
	all := kinds(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Proto", r.Proto)
		w.Header().Add("X-Many", "1")
		w.Header().Add("X-Many", "2")
		fmt.Fprintf(w, "%s %s %s %d %d", r.Method, r.Host, r.RequestURI, r.ContentLength, len(body))
	})
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, plainHTTP2(s))
			c := clientHTTP2(t)
			res, body := get(t, c, url(sv, "/a?b=c"))
			if want := "GET " + sv.Addr().String() + " /a?b=c 0 0"; body != want || res.Proto != "HTTP/2.0" || res.Header.Get("X-Proto") != "HTTP/2.0" {
				t.Errorf("got %q, %v", body, res)
			}
			if res.ContentLength != int64(len(body)) || len(res.Header["X-Many"]) != 2 || res.Header.Get("Date") == "" {
				t.Errorf("got %v", res)
			}
			if res.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("got %v", res.Header)
			}
			large := strings.Repeat("x", 3<<20)
			res, err := c.Post(url(sv, "/"), "text/plain", strings.NewReader(large))
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := io.ReadAll(res.Body); string(got) != fmt.Sprintf("POST %s / %d %d", sv.Addr(), len(large), len(large)) {
				t.Errorf("got %q", got)
			}
			res, err = c.Post(url(sv, "/"), "text/plain", io.MultiReader(strings.NewReader("ab"), strings.NewReader("c")))
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := io.ReadAll(res.Body); !strings.HasSuffix(string(got), "/ -1 3") {
				t.Errorf("got %q", got)
			}
			res, err = c.Head(url(sv, "/"))
			if err != nil || res.ContentLength <= 0 {
				t.Errorf("got %v, %v", res, err)
			}
		})
	}
}

func TestHTTP2LeanHandlers(t *testing.T) {
	s := &web.Server{Lean: web.LeanRoutes(map[string]func(*web.LeanCtx){
		"/hello": func(c *web.LeanCtx) {
			c.AddHeader("X-Seen", fmt.Sprintf("%s %s %s %s %s", c.Method(), c.Path(), c.Query(), c.Host(), c.Header("X-Asked")))
			c.WriteString("Hello, World!")
		},
		"/large": func(c *web.LeanCtx) { c.Write(bytes.Repeat([]byte("x"), 5<<20)) },
		"/none":  func(c *web.LeanCtx) { c.SetStatus(204) },
		"/echo": func(c *web.LeanCtx) {
			c.ReadBody(1<<20, func(c *web.LeanCtx, body []byte) {
				c.AddHeader("Content-Type", "application/x")
				c.Write(body)
			})
		},
	})}
	sv := serve(t, plainHTTP2(s))
	c := clientHTTP2(t)
	for range 2 {
		req, _ := http.NewRequest("GET", url(sv, "/hello?q=1"), nil)
		req.Header.Set("X-Asked", "yes")
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		if want := "GET /hello q=1 " + sv.Addr().String() + " yes"; string(body) != "Hello, World!" || res.Header.Get("X-Seen") != want {
			t.Errorf("got %q, %v", body, res.Header)
		}
		if _, body := get(t, c, url(sv, "/large")); len(body) != 5<<20 {
			t.Errorf("got %d bytes", len(body))
		}
		if res, _ := get(t, c, url(sv, "/none")); res.StatusCode != 204 {
			t.Errorf("got %v", res)
		}
		if res, _ := get(t, c, url(sv, "/other")); res.StatusCode != 404 {
			t.Errorf("got %v", res)
		}
		res, err = c.Post(url(sv, "/echo"), "text/plain", strings.NewReader(strings.Repeat("y", 300_000)))
		if err != nil {
			t.Fatal(err)
		}
		if body, _ := io.ReadAll(res.Body); len(body) != 300_000 || res.Header.Get("Content-Type") != "application/x" {
			t.Errorf("got %d bytes, %v", len(body), res.Header)
		}
		res, err = c.Post(url(sv, "/echo"), "text/plain", strings.NewReader(strings.Repeat("y", 2<<20)))
		if err != nil || res.StatusCode != 413 {
			t.Errorf("got %v, %v", res, err)
		}
	}
}

func TestHTTP2OverTLSByDefault(t *testing.T) {
	server, trust := certified(t)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto, r.TLS.NegotiatedProtocol)
	}) {
		t.Run(name, func(t *testing.T) {
			s.TLS = server
			sv := serve(t, s)
			for _, want := range []string{"HTTP/2.0h2", "HTTP/1.1"} {
				tr := &http.Transport{TLSClientConfig: trust.Clone(), ForceAttemptHTTP2: want[5] == '2'}
				if _, body := get(t, &http.Client{Transport: tr}, "https://"+sv.Addr().String()); body != want {
					t.Errorf("got %q, want %q", body, want)
				}
				tr.CloseIdleConnections()
			}
		})
	}
}

func TestPlainPortSpeaksBothProtocols(t *testing.T) {
	s := plainHTTP2(&web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })})
	sv := serve(t, s)
	if _, body := get(t, client(t), url(sv, "/")); body != "HTTP/1.1" {
		t.Errorf("got %q", body)
	}
	if _, body := get(t, clientHTTP2(t), url(sv, "/")); body != "HTTP/2.0" {
		t.Errorf("got %q", body)
	}
	if got := raw(t, sv, "PRI /x HTTP/1.1\r\nHost: a\r\n\r\n", "PRI"); !strings.HasSuffix(got[0], "HTTP/1.1") {
		t.Errorf("got %q", got)
	}
}

// TestPrefaceInPieces sends the preface byte by byte.
func TestPrefaceInPieces(t *testing.T) {
	sv := serve(t, plainHTTP2(&web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") })}))
	p := dialPeer(t, sv)
	whole := appendFrame(nil, headersFrame, endStream|endHeaders, 1, p.request("GET", "/"))
	for i := range whole {
		p.nc.Write(whole[i : i+1])
	}
	if _, body := p.response(1); body != "ok" {
		t.Errorf("got %q", body)
	}
}

func TestHTTP2Trailers(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-Declared")
		w.Header().Set("X-Got", r.Trailer.Get("X-Sent"))
		io.WriteString(w, "body")
		w.Header().Set("X-Declared", "1")
		w.Header().Set(http.TrailerPrefix+"X-Late", "2")
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, plainHTTP2(s))
			req, _ := http.NewRequest("POST", url(sv, "/"), io.MultiReader(strings.NewReader("abc")))
			req.Trailer = http.Header{"X-Sent": {"yes"}}
			res, err := clientHTTP2(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			if string(body) != "body" || res.Header.Get("X-Got") != "yes" || res.Trailer.Get("X-Declared") != "1" || res.Trailer.Get("X-Late") != "2" {
				t.Errorf("got %q, %v, %v", body, res.Header, res.Trailer)
			}
		})
	}
}

func TestHTTP2EarlyHintsAndContinue(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		body, _ := io.ReadAll(r.Body)
		w.Write(body)
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, plainHTTP2(s))
			var hints, continues int
			trace := &httptrace.ClientTrace{
				Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
					if code == 103 && h.Get("Link") == "</style.css>" {
						hints++
					}
					return nil
				},
				Got100Continue: func() { continues++ },
			}
			req, _ := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "POST", url(sv, "/"), strings.NewReader("hello"))
			req.Header.Set("Expect", "100-continue")
			c := clientHTTP2(t)
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if body, _ := io.ReadAll(res.Body); string(body) != "hello" || hints != 1 {
				t.Errorf("got %q, %d hints, %d continues", body, hints, continues)
			}
		})
	}
}

func TestHTTP2FlushesAreSentAtOnce(t *testing.T) {
	proceed := make(chan struct{})
	s := &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "one ")
		w.(http.Flusher).Flush()
		<-proceed
		io.WriteString(w, "two")
	})}
	sv := serve(t, plainHTTP2(s))
	res, err := clientHTTP2(t).Get(url(sv, "/"))
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 4)
	if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != "one " {
		t.Errorf("got %q, %v", first, err)
	}
	close(proceed)
	if rest, _ := io.ReadAll(res.Body); string(rest) != "two" {
		t.Errorf("got %q", rest)
	}
}

// TestHTTP2Duplex reads the request while the response is written, as gRPC does.
func TestHTTP2Duplex(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		buf := make([]byte, 64)
		for {
			n, err := r.Body.Read(buf)
			w.Write(buf[:n])
			w.(http.Flusher).Flush()
			if err != nil {
				return
			}
		}
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, plainHTTP2(s))
			pr, pw := io.Pipe()
			req, _ := http.NewRequest("POST", url(sv, "/"), pr)
			res, err := clientHTTP2(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			for i := range 10 {
				word := fmt.Sprintf("word %d", i)
				io.WriteString(pw, word)
				got := make([]byte, len(word))
				if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != word {
					t.Fatalf("got %q, %v", got, err)
				}
			}
			pw.Close()
			if rest, err := io.ReadAll(res.Body); len(rest) > 0 || err != nil {
				t.Errorf("got %q, %v", rest, err)
			}
		})
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
