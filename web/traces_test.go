package web_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/spindleloop/spindle/tracing"
	"github.com/spindleloop/spindle/web"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// traceThrough sends a request with a header to a server that asks a second one, and
// returns the header that the second one receives.
func traceThrough(t *testing.T, header http.Header, change func(*http.Request)) http.Header {
	t.Helper()
	received := make(chan http.Header, 1)
	second := serve(t, &web.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { received <- r.Header.Clone() })})
	first := serve(t, &web.Server{Handler: web.Inline(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), "GET", "http://"+second.Addr().String(), nil)
		if err != nil {
			t.Error(err)
			return
		}
		if change != nil {
			change(req)
		}
		res, err := (&web.Transport{}).RoundTrip(req)
		if err != nil {
			t.Error(err)
			return
		}
		res.Body.Close()
	}))})
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+first.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	select {
	case got := <-received:
		return got
	default:
		t.Fatal("the second server has received nothing")
		return nil
	}
}

func TestTraceparentIsPassedOn(t *testing.T) {
	got := traceThrough(t, http.Header{"Traceparent": {parent}, "Tracestate": {"congo=t61rcWkgMzE"}}, nil)
	if got.Get("Traceparent") != parent || got.Get("Tracestate") != "congo=t61rcWkgMzE" {
		t.Errorf("the second server received %v", got)
	}
}

func TestTracestateOfSeveralFieldsIsJoined(t *testing.T) {
	got := traceThrough(t, http.Header{"Traceparent": {parent}, "Tracestate": {"a=1", "b=2"}}, nil)
	if got.Get("Tracestate") != "a=1,b=2" {
		t.Errorf("the second server received %v", got)
	}
}

func TestMalformedTraceparentIsNotPassedOn(t *testing.T) {
	for _, values := range [][]string{{"00-0-0-0"}, {parent, parent}, {"ff" + parent[2:]}, {parent + "-x"}} {
		got := traceThrough(t, http.Header{"Traceparent": values, "Tracestate": {"a=b"}}, nil)
		if got["Traceparent"] != nil || got["Tracestate"] != nil {
			t.Errorf("%q: the second server received %v", values, got)
		}
	}
}

func TestTraceparentOfRequestIsKept(t *testing.T) {
	own := "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00"
	got := traceThrough(t, http.Header{"Traceparent": {parent}}, func(r *http.Request) { r.Header.Set("Traceparent", own) })
	if values := got["Traceparent"]; len(values) != 1 || values[0] != own {
		t.Errorf("the second server received %q", values)
	}
}

// spans records how spans end.
type spans struct{ ended chan spanEnd }

type spanEnd struct {
	tracing.Span
	status int
	route  string
	failed bool
}

func (s *spans) Start(ctx context.Context, info tracing.Span) (context.Context, func(tracing.End)) {
	return ctx, func(e tracing.End) { s.ended <- spanEnd{info, e.Status, e.Route, e.Err != nil} }
}

func TestSpansOfRequestsHaveStatusAndRoute(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/none", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /teapots/{color}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	mux.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for name, h := range map[string]http.Handler{"worker": mux, "inline": web.Inline(mux)} {
		t.Run(name, func(t *testing.T) {
			tracer := &spans{make(chan spanEnd, 1)}
			at := serve(t, &web.Server{Handler: h, Tracer: tracer})
			for path, want := range map[string]spanEnd{
				"/none": {status: 200, route: "/none"}, "/teapots/red": {status: 418, route: "GET /teapots/{color}"},
				"/panic": {failed: true, route: "/panic"}, "/unknown": {status: 404},
			} {
				res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(newRequest(t, "http://"+at.Addr().String()+path))
				if err == nil {
					res.Body.Close()
				}
				want.Span = tracing.Span{Kind: "server", Method: "GET", Host: at.Addr().String(), Path: path}
				if got := <-tracer.ended; got != want {
					t.Errorf("the span is %+v, not %+v", got, want)
				}
			}
		})
	}
}

func newRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
