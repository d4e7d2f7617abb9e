package webgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/web/webgrpc"
)

// service is a service with methods that a test gives.
type service struct {
	testgrpc.UnimplementedTestServiceServer
	unary func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error)
	both  func(testgrpc.TestService_FullDuplexCallServer) error
	out   func(testgrpc.TestService_StreamingOutputCallServer) error
}

func (s *service) UnaryCall(ctx context.Context, r *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	return s.unary(ctx, r)
}

func (s *service) FullDuplexCall(stream testgrpc.TestService_FullDuplexCallServer) error {
	return s.both(stream)
}

func (s *service) StreamingOutputCall(_ *testgrpc.StreamingOutputCallRequest, stream testgrpc.TestService_StreamingOutputCallServer) error {
	return s.out(stream)
}

// bothServers returns connections to the service on the transport of grpc-go, and on a Server.
func bothServers(t *testing.T, s *service) map[string]*grpc.ClientConn {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	theirs := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(theirs, s)
	ended := make(chan error, 1)
	go func() { ended <- theirs.Serve(ln) }()
	t.Cleanup(func() {
		theirs.Stop()
		<-ended
	})
	ours := &webgrpc.Server{}
	testgrpc.RegisterTestServiceServer(ours, s)
	return map[string]*grpc.ClientConn{"grpc-go": dial(t, ln.Addr().String()), "inline": dial(t, serve(t, web.Inline(ours))), "goroutine": dial(t, serve(t, ours))}
}

// TestSameAsGRPC compares what a client sees with what it sees of a server on grpc-go's own
// transport.
func TestSameAsGRPC(t *testing.T) {
	type unary = func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error)
	fail := func(err error) unary {
		return func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) { return nil, err }
	}
	detailed, err := status.New(codes.FailedPrecondition, "with details").WithDetails(durationpb.New(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]unary{
		"answer": func(_ context.Context, r *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
			return &testgrpc.SimpleResponse{Username: strings.Repeat("x", int(r.ResponseSize))}, nil
		},
		"status":                fail(status.Error(codes.NotFound, "no such thing")),
		"details":               fail(detailed.Err()),
		"message to be escaped": fail(status.Error(codes.Aborted, "100 % «sûr»\n\x00\xff end")),
		"plain error":           fail(errors.New("plain")),
		"wrapped status":        fail(fmt.Errorf("outer: %w", status.Error(codes.DataLoss, "inner"))),
		"context error":         fail(context.DeadlineExceeded),
		"canceled":              fail(context.Canceled),
		"header and trailer": func(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
			err := errors.Join(
				grpc.SetHeader(ctx, metadata.Pairs("a", "1", "a", "2")),
				grpc.SetHeader(ctx, metadata.Pairs("b-bin", "\x00\xff", "grpc-status", "7")),
				grpc.SetTrailer(ctx, metadata.Pairs("c", "3", "d-bin", "\x01")))
			return &testgrpc.SimpleResponse{}, err
		},
		"header sent early": func(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
			if err := grpc.SendHeader(ctx, metadata.Pairs("a", "1")); err != nil {
				return nil, err
			}
			if grpc.SetHeader(ctx, metadata.Pairs("b", "1")) == nil || grpc.SendHeader(ctx, nil) == nil {
				return nil, errors.New("a second header was taken")
			}
			return nil, status.Error(codes.Internal, "after the header")
		},
		"trailer with an error": func(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
			_ = grpc.SetTrailer(ctx, metadata.Pairs("c", "3"))
			return nil, status.Error(codes.OutOfRange, "")
		},
		"what the context has": func(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
			name, _ := grpc.Method(ctx)
			md, _ := metadata.FromIncomingContext(ctx)
			delete(md, ":authority") // two ports
			p, ok := peer.FromContext(ctx)
			_, timed := ctx.Deadline()
			return &testgrpc.SimpleResponse{Username: fmt.Sprint(name, md, ok && p.Addr.Network() == "tcp" && p.LocalAddr != nil, timed)}, nil
		},
	}
	s := &service{unary: func(ctx context.Context, r *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
		return tests[string(r.Payload.Body)](ctx, r)
	}}
	conns := bothServers(t, s)
	for name := range tests {
		t.Run(name, func(t *testing.T) {
			seen := map[string]string{}
			for server, conn := range conns {
				ctx := metadata.AppendToOutgoingContext(minute(t), "k", "v", "k", "w", "k-bin", "\x00\x01")
				var header, trailer metadata.MD
				answer, err := testgrpc.NewTestServiceClient(conn).UnaryCall(ctx,
					&testgrpc.SimpleRequest{ResponseSize: 100_000, Payload: &testgrpc.Payload{Body: []byte(name)}}, grpc.Header(&header), grpc.Trailer(&trailer))
				for _, md := range []metadata.MD{header, trailer} { // of package web
					delete(md, "date")
					delete(md, "content-length")
				}
				st := status.Convert(err)
				seen[server] = fmt.Sprint(answer.GetUsername(), st.Code(), st.Message(), st.Details(), header, trailer)
			}
			for _, server := range []string{"inline", "goroutine"} {
				if seen[server] != seen["grpc-go"] {
					t.Errorf("%s: got %s, want %s", server, seen[server], seen["grpc-go"])
				}
			}
		})
	}
}

// TestStreamsSameAsGRPC does the same with streams.
func TestStreamsSameAsGRPC(t *testing.T) {
	s := &service{
		both: func(stream testgrpc.TestService_FullDuplexCallServer) error {
			stream.SetTrailer(metadata.Pairs("t", "1"))
			for n := 0; ; n++ {
				r, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					return status.Error(codes.Unknown, fmt.Sprint("after ", n))
				}
				if err != nil {
					return err
				}
				if err := stream.Send(&testgrpc.StreamingOutputCallResponse{Payload: r.Payload}); err != nil {
					return err
				}
			}
		},
		out: func(stream testgrpc.TestService_StreamingOutputCallServer) error {
			if err := stream.SendHeader(metadata.Pairs("h", "1")); err != nil {
				return err
			}
			for range 1000 {
				if err := stream.Send(&testgrpc.StreamingOutputCallResponse{Payload: &testgrpc.Payload{Body: make([]byte, 1000)}}); err != nil {
					return err
				}
			}
			return nil
		},
	}
	seen := map[string]string{}
	for server, conn := range bothServers(t, s) {
		ctx, client := minute(t), testgrpc.NewTestServiceClient(conn)
		both, err := client.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			body := []byte(fmt.Sprint(i))
			if err := both.Send(&testgrpc.StreamingOutputCallRequest{Payload: &testgrpc.Payload{Body: body}}); err != nil {
				t.Fatal(server, err)
			}
			if got, err := both.Recv(); err != nil || string(got.Payload.Body) != string(body) {
				t.Fatal(server, got, err)
			}
		}
		_ = both.CloseSend()
		_, err = both.Recv()
		result := fmt.Sprint(err, both.Trailer())
		out, err := client.StreamingOutputCall(ctx, &testgrpc.StreamingOutputCallRequest{})
		if err != nil {
			t.Fatal(err)
		}
		header, err := out.Header()
		delete(header, "date")
		n := 0
		for err == nil {
			if _, err = out.Recv(); err == nil {
				n++
			}
		}
		seen[server] = fmt.Sprint(result, header, n, err)
	}
	for _, server := range []string{"inline", "goroutine"} {
		if seen[server] != seen["grpc-go"] {
			t.Errorf("%s: got %s, want %s", server, seen[server], seen["grpc-go"])
		}
	}
}

// TestMethodsWaitInTasks: the context of an inline method is that of its task, so a thousand
// of them wait at the same time on one goroutine, and a call that is cancelled ends its wait.
func TestMethodsWaitInTasks(t *testing.T) {
	ended := make(chan error, 1)
	calls := &webgrpc.Server{}
	testgrpc.RegisterTestServiceServer(calls, &service{unary: func(ctx context.Context, r *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
		if r.FillUsername {
			err := spindle.Sleep(ctx, time.Hour)
			ended <- err
			return nil, err
		}
		return &testgrpc.SimpleResponse{}, spindle.Sleep(ctx, 10*time.Millisecond)
	}})
	client := testgrpc.NewTestServiceClient(dial(t, serve(t, web.Inline(calls))))
	results := make(chan error)
	for range 1000 {
		go func() {
			_, err := client.UnaryCall(minute(t), &testgrpc.SimpleRequest{})
			results <- err
		}()
	}
	for range 1000 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{FillUsername: true}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		t.Errorf("the method's wait ended with %v", err)
	}
}
