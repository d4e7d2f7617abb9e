package webgrpc_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/spindleloop/spindle/internal/direct"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/web/webgrpc"
)

// TestSameBehindMiddleware: answers are the same with a header map, which middleware finds filled in.
func TestSameBehindMiddleware(t *testing.T) {
	md := metadata.Pairs("k", "v")
	for name, method := range map[string]func(context.Context) error{
		"nothing set":          func(context.Context) error { return nil },
		"a header":             func(ctx context.Context) error { return grpc.SetHeader(ctx, md) },
		"a header sent":        func(ctx context.Context) error { return grpc.SendHeader(ctx, md) },
		"an empty header sent": func(ctx context.Context) error { return grpc.SendHeader(ctx, nil) },
		"a trailer":            func(ctx context.Context) error { return grpc.SetTrailer(ctx, md) },
		"an error":             func(context.Context) error { return status.Error(codes.NotFound, "not here") },
		"an error after header": func(ctx context.Context) error {
			_ = grpc.SendHeader(ctx, nil)
			return status.Error(codes.NotFound, "x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			calls := &webgrpc.Server{}
			testgrpc.RegisterTestServiceServer(calls, &service{unary: func(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
				return &testgrpc.SimpleResponse{}, method(ctx)
			}})
			seen := make(chan string, 1)
			around := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls.ServeHTTP(w, r)
				seen <- w.Header().Get("Content-Type")
			})
			ask := func(h http.Handler) string {
				res := post(t, serve(t, h), unaryPath, nil, framed(0, nil))
				res.Header.Del("Date")
				return fmt.Sprint(res.Status, res.ContentLength, res.Header, res.Trailer)
			}
			if alone, behind := ask(web.Inline(calls)), ask(web.Inline(around)); alone != behind {
				t.Errorf("got %s\nwith middleware %s", alone, behind)
			}
			if got := <-seen; got != "application/grpc" {
				t.Errorf("the middleware saw the content type %q", got)
			}
		})
	}
}

// counted counts the calls of a response's methods that need no header map.
type counted struct {
	direct.Response
	responds, trails int
}

func (c *counted) Respond(fields string) { c.responds++; c.Response.Respond(fields) }
func (c *counted) Trail(fields string)   { c.trails++; c.Response.Trail(fields) }

// counting is a direct.Handler in front of another one.
type counting struct {
	direct.Handler
	last chan *counted
}

func (c counting) ServeDirect(w direct.Response, r *http.Request) {
	n := &counted{Response: w}
	c.Handler.ServeDirect(n, r)
	if len(w.Header()) == 0 {
		c.last <- n
	} else {
		c.last <- nil
	}
}

// TestShortCallNeedsNoHeaderMap: a call without metadata that succeeds does not fill in the header map.
func TestShortCallNeedsNoHeaderMap(t *testing.T) {
	calls := &webgrpc.Server{}
	testgrpc.RegisterTestServiceServer(calls, &service{unary: func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
		return &testgrpc.SimpleResponse{}, nil
	}})
	for name, mark := range map[string]func(http.Handler) http.Handler{"inline": web.Inline, "goroutine": func(h http.Handler) http.Handler { return h }} {
		t.Run(name, func(t *testing.T) {
			h := counting{calls, make(chan *counted, 1)}
			post(t, serve(t, mark(h)), unaryPath, nil, framed(0, nil))
			select {
			case n := <-h.last:
				if n == nil || n.responds != 1 || n.trails != 1 {
					t.Errorf("got %+v", n)
				}
			default:
				t.Error("ServeDirect was not called")
			}
		})
	}
}
