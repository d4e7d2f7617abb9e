package otel_test

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect/otel"
	"github.com/spindleloop/spindle/web"
)

// receiver is a collector: it receives spans by OTLP over HTTP.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracepb.Span // guarded by mu
}

func newReceiver() *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var batch collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &batch)
		}
		if err != nil || req.URL.Path != "/v1/traces" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, resource := range batch.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
	}))
	return r
}

// provider returns a provider that exports to the receiver, and the function that sends what
// is left.
func (r *receiver) provider() (*sdktrace.TracerProvider, func() error) {
	ctx := context.Background()
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(r.URL+"/v1/traces"))
	if err != nil {
		panic(err)
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	return p, func() error { return p.Shutdown(ctx) }
}

func serve(t *testing.T, ctx context.Context, n *spindle.Nursery, s *web.Server) (url string) {
	t.Helper()
	addr := spindle.NewFuture[net.Addr](ctx)
	s.OnListen = func(a net.Addr) { addr.Resolve(a) }
	n.Go(func(ctx context.Context) error { return s.ListenAndServe(ctx, "127.0.0.1:0") })
	a, err := addr.Await(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + a.String()
}

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	callers = "b7ad6b7169203331"
)

// A request goes through a server, a task and a client to a second server.
func TestRequestThroughTwoServersIsOneTrace(t *testing.T) {
	r := newReceiver()
	defer r.Close()
	provider, flush := r.provider()
	tracer := otel.NewTracer(provider)
	seen := ""
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			second := serve(t, ctx, n, &web.Server{Tracer: tracer, Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen = r.Header.Get("Traceparent")
				w.WriteHeader(http.StatusTeapot)
			}))})
			first := serve(t, ctx, n, &web.Server{Tracer: tracer, Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !trace.SpanFromContext(r.Context()).IsRecording() {
					t.Error("the context of the request carries no span")
				}
				err := spindle.WithNursery(r.Context(), func(ctx context.Context, n *spindle.Nursery) error {
					n.GoWith(spindle.TaskOptions{Name: "fetch"}, func(ctx context.Context) error { return get(ctx, second, "") })
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}))})
			defer n.Scope().Cancel(nil)
			return get(ctx, first, "00-"+traceID+"-"+callers+"-01")
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := flush(); err != nil {
		t.Fatal(err)
	}
	byID := map[string]*tracepb.Span{}
	for _, s := range r.spans {
		byID[hex.EncodeToString(s.SpanId)] = s
		if hex.EncodeToString(s.TraceId) != traceID {
			t.Errorf("span %s is of another trace", s.Name)
		}
	}
	path := func(s *tracepb.Span) string {
		var names []string
		for s != nil {
			names = append(names, strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_")+" "+s.Name)
			parent := hex.EncodeToString(s.ParentSpanId)
			if s = byID[parent]; s == nil && parent != callers {
				t.Errorf("%v has an unknown parent %s", names, parent)
			}
		}
		slices.Reverse(names)
		return strings.Join(names, " > ")
	}
	var got []string
	for _, s := range r.spans {
		got = append(got, path(s))
	}
	slices.Sort(got)
	want := []string{
		"SERVER GET",
		"SERVER GET > INTERNAL fetch",
		"SERVER GET > INTERNAL fetch > CLIENT GET",
		"SERVER GET > INTERNAL fetch > CLIENT GET > CLIENT dial tcp",
		"SERVER GET > INTERNAL fetch > CLIENT GET > SERVER GET",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the spans are\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if client := slices.IndexFunc(r.spans, func(s *tracepb.Span) bool { return seen == "00-"+traceID+"-"+hex.EncodeToString(s.SpanId)+"-01" }); client < 0 {
		t.Errorf("the second server has received traceparent %q, which names no span", seen)
	}
}

// get makes a request in a task.
func get(ctx context.Context, url, parent string) error {
	req, err := http.NewRequestWithContext(ctx, "GET", url+"/hello?secret", nil)
	if err != nil {
		return err
	}
	if parent != "" {
		req.Header.Set("Traceparent", parent)
	}
	res, err := (&web.Transport{}).RoundTrip(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// Tasks of a run with a tracer are spans inside one another. A failed one has its error, and
// a cancelled one has none.
func TestTasksAreSpans(t *testing.T) {
	r := newReceiver()
	defer r.Close()
	provider, flush := r.provider()
	lucky := errors.New("out of luck")
	err := spindle.Run(spindle.WithTracer(t.Context(), otel.NewTracer(provider)), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "waits"}, func(ctx context.Context) error {
				var f spindle.Future[int]
				_, err := f.Await(ctx)
				return err
			})
			n.GoWith(spindle.TaskOptions{Name: "fails"}, func(ctx context.Context) error { return lucky })
			return nil
		})
	})
	if !errors.Is(err, lucky) {
		t.Fatal(err)
	}
	if err := flush(); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(r.spans, func(a, b *tracepb.Span) int { return cmp.Compare(a.Name, b.Name) })
	if len(r.spans) != 3 {
		t.Fatalf("the spans are %v", r.spans)
	}
	fails, main, waits := r.spans[0], r.spans[1], r.spans[2]
	if string(fails.ParentSpanId) != string(main.SpanId) || string(waits.ParentSpanId) != string(main.SpanId) || len(main.ParentSpanId) != 0 {
		t.Errorf("the parents are wrong: %v", r.spans)
	}
	if fails.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || fails.Status.Message != "out of luck" {
		t.Errorf("the failed task has the status %v", fails.Status)
	}
	if waits.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("the cancelled task has the status %v", waits.Status)
	}
}
