package otel_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/inspect/otel"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/relay/process"
	"github.com/spindleloop/spindle/tracing"
	"github.com/spindleloop/spindle/web"
)

// recorded is a tracer with an exporter that keeps the spans in memory.
func recorded() (tracing.Tracer, *tracetest.InMemoryExporter) {
	exporter := tracetest.NewInMemoryExporter()
	return otel.NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))), exporter
}

// paths returns the spans of the trace by their paths, from the client's span on. It fails the
// test if a span has a parent that was not exported, or has lost the tracestate.
func paths(t *testing.T, spans tracetest.SpanStubs) (all []string) {
	t.Helper()
	byID := map[trace.SpanID]tracetest.SpanStub{}
	for _, s := range spans {
		byID[s.SpanContext.SpanID()] = s
	}
	for _, s := range spans {
		if s.SpanContext.TraceID().String() != traceID {
			continue
		}
		if state := s.SpanContext.TraceState().String(); state != traceState {
			t.Errorf("span %q has the tracestate %q", s.Name, state)
		}
		var names []string
		for at := s; ; {
			names = append(names, at.SpanKind.String()+" "+at.Name)
			parent := at.Parent.SpanID()
			if parent.String() == callers {
				break
			}
			var exported bool
			if at, exported = byID[parent]; !exported {
				t.Errorf("%q has the parent %v, which was not exported", names, parent)
				break
			}
		}
		slices.Reverse(names)
		all = append(all, strings.Join(names, " > "))
	}
	slices.Sort(all)
	return all
}

const traceState = "vendor=value"

// plane runs a web server that calls a subject, makes a request to it, and returns the body of
// the answer.
func plane(t *testing.T, tracer tracing.Tracer, inline bool, work func(ctx context.Context, bus relay.Bus, ready func()) error) (answer string) {
	t.Helper()
	bus := relay.NewLocal(relay.LocalOptions{})
	err := spindle.Run(spindle.WithTracer(t.Context(), tracer), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			defer n.Scope().Cancel(nil)
			var ready cosync.Event
			n.Go(func(ctx context.Context) error { return work(ctx, bus, ready.Set) })
			if err := ready.Wait(ctx); err != nil {
				return err
			}
			c, err := relay.NewCaller(ctx, bus, relay.CallerOptions{})
			if err != nil {
				return err
			}
			defer c.Close()
			var h http.Handler = gateway.New(c, gateway.Route{Subject: "work"})
			if inline {
				h = web.Inline(h)
			}
			mux := http.NewServeMux()
			mux.Handle("POST /work/{id}", h)
			url := serve(t, ctx, n, &web.Server{Tracer: tracer, Handler: mux})
			answer, err = post(ctx, url+"/work/17")
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func post(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader("hello"))
	if err != nil {
		return "", err
	}
	req.Header.Set("Traceparent", "00-"+traceID+"-"+callers+"-01")
	req.Header.Set("Tracestate", traceState)
	res, err := (&http.Client{Transport: &web.Transport{}}).Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return string(body), err
}

// A request goes through a web server and a bus to a handler, in all places where both run.
func TestRequestThroughRelayIsOneTrace(t *testing.T) {
	const route = "server POST /work/{id}"
	want := []string{
		route,
		route + " > client call work",
		route + " > client call work > server handle work",
		route + " > client call work > server handle work > internal inside",
	}
	for name, inline := range map[string]bool{"web on goroutines": false, "web in tasks": true} {
		for mode, inTasks := range map[string]bool{"worker on goroutines": false, "worker in tasks": true} {
			t.Run(name+", "+mode, func(t *testing.T) {
				exporter := tracetest.NewInMemoryExporter()
				provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
				tracer := otel.NewTracer(provider)
				plane(t, tracer, inline, func(ctx context.Context, bus relay.Bus, ready func()) error {
					return relay.NewWorker(bus).Serve(ctx, "work", func(ctx context.Context, r *relay.Request) ([]byte, error) {
						span := trace.SpanFromContext(ctx)
						if !span.IsRecording() || tracing.Of(ctx).Span != [8]byte(span.SpanContext().SpanID()) {
							t.Errorf("the context of the handler has the span %v and the trace %v", span.SpanContext(), tracing.Of(ctx))
						}
						_, inside := provider.Tracer("test").Start(ctx, "inside")
						inside.End()
						return r.Body, nil
					}, relay.ServeOptions{InTasks: inTasks, Ready: ready})
				})
				spans := exporter.GetSpans()
				if got := paths(t, spans); !slices.Equal(got, want) {
					t.Errorf("the spans are\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				for _, s := range spans {
					if s.Name == "POST /work/{id}" && !slices.Contains(s.Attributes, attribute.String("http.route", "/work/{id}")) {
						t.Errorf("the span of the server has the attributes %v", s.Attributes)
					}
				}
			})
		}
	}
}

// pythonWorker answers with the trace that it gets.
const pythonWorker = `
import json, struct, sys
while True:
    size = sys.stdin.buffer.read(8)
    if len(size) < 8: sys.exit()
    all, head = struct.unpack(">II", size)
    header = json.loads(sys.stdin.buffer.read(head))
    sys.stdin.buffer.read(all - 4 - head)
    if header["kind"] == "request":
        body = (header["traceparent"] + " " + header["tracestate"]).encode()
        head = json.dumps({"kind": "reply", "id": header["id"]}).encode()
        sys.stdout.buffer.write(struct.pack(">II", 4 + len(head) + len(body), len(head)) + head + body)
        sys.stdout.buffer.flush()
`

// A worker process gets the span of its handler as the parent of its own spans.
func TestRequestThroughRelayToPythonIsOneTrace(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	script := filepath.Join(t.TempDir(), "worker.py")
	if err := os.WriteFile(script, []byte(pythonWorker), 0o600); err != nil {
		t.Fatal(err)
	}
	tracer, exporter := recorded()
	answer := plane(t, tracer, true, func(ctx context.Context, bus relay.Bus, ready func()) error {
		return process.Serve(ctx, bus, "work", process.Options{Command: []string{python, script}, Ready: ready})
	})
	spans := exporter.GetSpans()
	const route = "server POST /work/{id}"
	want := []string{route, route + " > client call work", route + " > client call work > server handle work"}
	if got := paths(t, spans); !slices.Equal(got, want) {
		t.Errorf("the spans are\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, s := range spans {
		if s.Name == "handle work" && answer != "00-"+traceID+"-"+s.SpanContext.SpanID().String()+"-01 "+traceState {
			t.Errorf("the process has the trace %q, but its handler has the span %v", answer, s.SpanContext.SpanID())
		}
	}
}

// The span that OpenTelemetry for Python makes in a worker process, as the guide shows it, is a child
// of the handler's span.
func TestSpanOfPythonIsPartOfTheTrace(t *testing.T) {
	python := cmp.Or(os.Getenv("SPINDLE_PYTHON"), "python3")
	if out, err := exec.Command(python, "-c", "import opentelemetry.sdk.trace").CombinedOutput(); err != nil {
		t.Skipf("%s cannot import opentelemetry.sdk: %v\n%s", python, err, out)
	}
	tracer, exporter := recorded()
	answer := plane(t, tracer, true, func(ctx context.Context, bus relay.Bus, ready func()) error {
		return process.Serve(ctx, bus, "work", process.Options{Command: []string{python, "testdata/worker.py"}, Ready: ready})
	})
	type span struct{ Name, Trace, Parent, State string }
	var got []span
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	for _, s := range exporter.GetSpans() {
		if s.Name != "handle work" {
			continue
		}
		if want := []span{{"upper", traceID, s.SpanContext.SpanID().String(), traceState}}; !slices.Equal(got, want) {
			t.Errorf("Python exports %q, want %q", got, want)
		}
		return
	}
	t.Error("the handler has no span")
}

// Without a tracer in front, the trace of a client passes through a web server of net/http and a
// Caller to a worker with a tracer.
func TestTracePassesThroughPlanesWithoutTracer(t *testing.T) {
	tracer, exporter := recorded()
	bus := relay.NewLocal(relay.LocalOptions{})
	c, err := relay.NewCaller(t.Context(), bus, relay.CallerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, stop := context.WithCancel(spindle.WithTracer(t.Context(), tracer))
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- relay.NewWorker(bus).Serve(ctx, "work", func(ctx context.Context, r *relay.Request) ([]byte, error) {
			return nil, errors.New("out of luck")
		}, relay.ServeOptions{Ready: func() { close(ready) }})
	}()
	<-ready
	r := httptest.NewRequest("POST", "/", nil)
	r.Header.Set("Traceparent", "00-"+traceID+"-"+callers+"-01")
	r.Header.Set("Tracestate", traceState)
	gateway.New(c, gateway.Route{Subject: "work"}).ServeHTTP(httptest.NewRecorder(), r)
	if _, err := c.Call(t.Context(), "work", nil); err == nil {
		t.Error("the call has succeeded")
	}
	stop()
	<-ended
	spans := exporter.GetSpans()
	if got := paths(t, spans); !slices.Equal(got, []string{"server handle work"}) || len(spans) != 2 {
		t.Errorf("the spans are %q of %d", got, len(spans))
	}
	for _, s := range spans {
		if s.SpanContext.TraceID().String() != traceID && s.Parent.IsValid() {
			t.Errorf("the span of a request without a trace has the parent %v", s.Parent)
		}
		if s.Status.Code != codes.Error || s.Status.Description != "out of luck" {
			t.Errorf("the span of a handler that fails has the status %v", s.Status)
		}
	}
}

// A call continues the trace that the program has put into its context, or that of a span which
// the program has started itself.
func TestCallContinuesTraceOfContext(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	bus := relay.NewLocal(relay.LocalOptions{})
	foreign, err := tracing.Parse("00-" + traceID + "-" + callers + "-01")
	if err != nil {
		t.Fatal(err)
	}
	foreign.State = traceState
	err = spindle.Run(spindle.WithTracer(t.Context(), otel.NewTracer(provider)), func(ctx context.Context) error {
		c, err := relay.NewCaller(ctx, bus, relay.CallerOptions{})
		if err != nil {
			return err
		}
		defer c.Close()
		_, _ = c.Call(tracing.With(ctx, foreign), "with", nil) // fails, as all do
		_, _ = c.Do(ctx, relay.Envelope{Subject: "envelope", Trace: foreign})
		own, span := provider.Tracer("test").Start(ctx, "own")
		_, _ = c.Call(own, "inside", nil)
		span.End()
		s, err := c.Stream(ctx, relay.Envelope{Subject: "stream"})
		if err == nil {
			t.Error("a stream of a subject without a worker has begun")
			s.Close()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	spans := exporter.GetSpans()
	if got, want := paths(t, spans), []string{"client call envelope", "client call with"}; !slices.Equal(got, want) {
		t.Errorf("the spans are %q, not %q", got, want)
	}
	ids := map[string]trace.SpanID{}
	for _, s := range spans {
		ids[s.Name] = s.SpanContext.SpanID()
	}
	for _, s := range spans {
		if s.Name == "call stream" && s.Parent.SpanID() != ids["main"] || s.Name == "call inside" && s.Parent.SpanID() != ids["own"] {
			t.Errorf("the span %q has the parent %v", s.Name, s.Parent)
		}
	}
	if len(spans) != 6 {
		t.Errorf("there are %d spans", len(spans))
	}
}
