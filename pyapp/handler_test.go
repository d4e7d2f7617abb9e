package pyapp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/pyapp"
	"github.com/spindleloop/spindle/tracing"
	"github.com/spindleloop/spindle/web"
)

// mounted returns a mux with an app under /api.
func mounted(app *pyapp.App) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/api/", http.StripPrefix("/api", app))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "Go") })
	return mux
}

func TestFastAPIUnderAGoMux(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "main:app"})
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			url := start(t, mounted(app))
			if code, text := get(t, url+"/"); code != 200 || text != "Go" {
				t.Error(code, text)
			}
			req, _ := http.NewRequest("GET", url+"/api/items/3?q=a%20b", nil)
			const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
			req.Header.Set("Traceparent", trace)
			res, err := client(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			var got struct {
				Number                         int
				URL, Client, Root, Path, Query string
				Headers                        map[string]string
			}
			if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
				t.Fatal(err)
			}
			if got.Number != 3 || got.URL != url+"/api/items/3" || got.Root != "/api" || got.Path != "/api/items/3" || got.Query != "q=a%20b" {
				t.Errorf("%+v", got)
			}
			if host, _, _ := strings.Cut(got.Client, ":"); host != "127.0.0.1" || strings.HasSuffix(got.Client, ":0") {
				t.Errorf("the client is %s", got.Client)
			}
			if got.Headers["traceparent"] != trace || got.Headers["spindle-mount"] != "" {
				t.Error(got.Headers)
			}
			if code, text := get(t, url+"/api/thread"); code != 200 || text == "" {
				t.Error(code, text)
			}
			if code, text := get(t, url+"/api/nothing"); code != 404 || text != `{"detail":"Not Found"}` {
				t.Error(code, text)
			}
			post, err := client(t).Post(url+"/api/items", "application/json", strings.NewReader(`{"name": "pen", "price": 1.5}`))
			if err != nil {
				t.Fatal(err)
			}
			defer post.Body.Close()
			if b, _ := io.ReadAll(post.Body); string(b) != `{"name":"pen","twice":3.0}` {
				t.Errorf("%s", b)
			}
		})
	}
}

// scope is what the app raw:app reports of a request.
type scope struct {
	Path, Raw, Query, Scheme, Method string
	RootPath                         string `json:"root_path"`
	Version                          string `json:"http_version"`
	Client                           []any
	Headers                          [][2]string
}

// scopeOf passes a request to the app as a server would.
func scopeOf(t *testing.T, h http.Handler, r *http.Request) (s scope) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatal(err, w.Code, w.Body)
	}
	return s
}

func TestScopeOfARequest(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "raw:app"})
	for _, test := range []struct {
		name            string
		handler         http.Handler
		uri             string
		path, raw, root string
	}{
		{"not stripped", app, "/a/b", "/a/b", "/a/b", ""},
		{"stripped", http.StripPrefix("/a", app), "/a/b", "/a/b", "/a/b", "/a"},
		{"stripped with a slash", http.StripPrefix("/a/", app), "/a/b", "/a/b", "/a/b", "/a"},
		{"all of it stripped", http.StripPrefix("/a", app), "/a", "/a", "/a", "/a"},
		{"escaped", http.StripPrefix("/ä", app), "/%C3%A4/b", "/ä/b", "/%C3%A4/b", "/ä"},
		{"with an escaped slash", http.StripPrefix("/a", app), "/a/x%2Fy", "/a/x/y", "/a/x%2Fy", "/a"},
		{"another path", rewrite("/other", app), "/a/b", "/other", "/other", ""},
		{"with spaces in the query", query("a b", app), "/a", "/a", "/a", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := scopeOf(t, test.handler, httptest.NewRequest("GET", test.uri, nil))
			if s.Path != test.path || s.Raw != test.raw || s.RootPath != test.root {
				t.Errorf("%+v", s)
			}
		})
	}
}

func rewrite(path string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.URL.Path, r.URL.RawPath = path, ""
		h.ServeHTTP(w, r)
	})
}

func query(text string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.URL.RawQuery = text
		h.ServeHTTP(w, r)
	})
}

// TestClientOfARequest: only a trusted proxy is believed, and no field from outside sets the
// mount.
func TestClientOfARequest(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "raw:app", Args: []string{"--forwarded-allow-ips=10.0.0.1"}})
	for _, test := range []struct{ name, remote, client string }{
		{"a client", "192.0.2.1:1234", "192.0.2.1"},
		{"a trusted proxy", "10.0.0.1:1234", "198.51.100.7"},
		{"IPv6", "[2001:db8::1]:1234", "2001:db8::1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = test.remote
			r.Header.Set("X-Forwarded-For", "198.51.100.7")
			r.Header.Set("Spindle-Mount", "203.0.113.9:1 -s /evil")
			r.Header.Set("X-Line", "a\r\nSpindle-Mount: 203.0.113.9:1 -s /evil")
			s := scopeOf(t, app, r)
			if len(s.Client) != 2 || s.Client[0] != test.client || s.Scheme != "http" || s.RootPath != "" {
				t.Errorf("%+v", s)
			}
		})
	}
	t.Run("a client of a Unix socket with the name of a trusted proxy", func(t *testing.T) {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "10.0.0.1:80" // the path that the client has bound
		r.Header.Set("X-Forwarded-For", "198.51.100.7")
		at := context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Net: "unix", Name: "socket"})
		if s := scopeOf(t, app, r.WithContext(at)); s.Client != nil || s.Scheme != "http" {
			t.Errorf("%+v", s)
		}
	})
	t.Run("TLS and a trace of the context", func(t *testing.T) {
		r := httptest.NewRequest("GET", "https://example.org/", nil) // has TLS
		trace := tracing.Context{ID: [16]byte{1}, Span: [8]byte{2}, Flags: 1}
		s := scopeOf(t, app, r.WithContext(tracing.With(r.Context(), trace)))
		sent := false
		for _, field := range s.Headers {
			sent = sent || field == [2]string{"traceparent", trace.String()}
		}
		if s.Scheme != "https" || !sent {
			t.Errorf("%+v", s)
		}
	})
}

// TestProtocolOfARequest checks that the app sees the protocol of the client, not that of the
// worker's socket.
func TestProtocolOfARequest(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "raw:app"})
	for name, start := range servers {
		url := start(t, app)
		for version, speak := range map[string]func(*http.Protocols, bool){"1.1": (*http.Protocols).SetHTTP1, "2": (*http.Protocols).SetUnencryptedHTTP2} {
			t.Run(name+" "+version, func(t *testing.T) {
				only := new(http.Protocols)
				speak(only, true)
				c := &http.Client{Transport: &http.Transport{Protocols: only}, Timeout: limit}
				defer c.CloseIdleConnections()
				fetch := func(path string) (*http.Response, []byte) {
					res, err := c.Get(url + path)
					if err != nil {
						t.Fatal(err)
					}
					defer res.Body.Close()
					body, err := io.ReadAll(res.Body)
					if err != nil || !strings.HasPrefix(res.Proto, "HTTP/"+version) {
						t.Error(res.Proto, err)
					}
					return res, body
				}
				var s scope
				if _, body := fetch("/show"); json.Unmarshal(body, &s) != nil || s.Version != version {
					t.Errorf("%s", body)
				}
				if res, _ := fetch("/trailers"); version == "2" && res.Trailer.Get("X-Sum") != "4" {
					t.Errorf("%v", res.Trailer)
				}
			})
		}
	}
}

func TestTrailersAndEarlyHints(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "raw:app"})
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			url := start(t, app)
			trailers, _ := http.NewRequestWithContext(t.Context(), "GET", url+"/trailers", nil)
			trailers.Header.Set("TE", "trailers") // else the worker leaves them out
			res, err := client(t).Do(trailers)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if b, err := io.ReadAll(res.Body); string(b) != "text" || err != nil || res.Trailer.Get("X-Sum") != "4" {
				t.Errorf("%q, %v, %v", b, err, res.Trailer)
			}
			var link string
			req, _ := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
					link = header.Get("Link")
					return nil
				},
			}), "GET", url+"/hints", nil)
			hints, err := client(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer hints.Body.Close()
			if link != "</style.css>; rel=preload" || hints.Header.Get("Link") != "" {
				t.Errorf("%q, %v", link, hints.Header)
			}
		})
	}
}

func TestAppInAnInlineHandler(t *testing.T) {
	app := &pyapp.App{Target: "raw:app"}
	reported := make(chan any, 1)
	h := web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { reported <- recover() }()
		app.ServeHTTP(w, r)
	}))
	get(t, serveWeb(t, h))
	if got, ok := (<-reported).(string); !ok || !strings.Contains(got, "web.Inline") {
		t.Error(got)
	}
}

func TestLargeBodies(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "raw:app"})
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			url := start(t, app)
			code, text := get(t, url+"/large")
			if code != 200 || len(text) != 64*65536 || text[65535] != 0 || text[65536] != 1 {
				t.Error(code, len(text))
			}
			for _, size := range []int{0, 1, 16 << 10, 16<<10 + 1, 3 << 20} {
				sent := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
				for kind, body := range map[string]io.Reader{"length": bytes.NewReader(sent), "chunks": io.MultiReader(bytes.NewReader(sent))} {
					res, err := client(t).Post(url+"/echo", "text/plain", body)
					if err != nil {
						t.Fatal(kind, size, err)
					}
					got, err := io.ReadAll(res.Body)
					res.Body.Close()
					if err != nil || !bytes.Equal(got, sent) {
						t.Errorf("%s, %d bytes: got %d, %v", kind, size, len(got), err)
					}
				}
			}
		})
	}
}

// TestAnswerBeforeTheBody: the app refuses a body that it does not read.
func TestAnswerBeforeTheBody(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "raw:app"})
	for name, start := range servers {
		for _, expect := range []string{"", "100-continue"} {
			t.Run(name+" "+expect, func(t *testing.T) {
				r, w := io.Pipe()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				req, _ := http.NewRequestWithContext(ctx, "POST", start(t, app)+"/refuse", r)
				if expect != "" {
					req.Header.Set("Expect", expect)
				}
				go w.Write(make([]byte, 100_000))
				res, err := client(t).Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if b, err := io.ReadAll(res.Body); res.StatusCode != 403 || string(b) != "no" || err != nil {
					t.Errorf("%d, %q, %v", res.StatusCode, b, err)
				}
				w.Close()
				r.Close()
			})
		}
	}
}
