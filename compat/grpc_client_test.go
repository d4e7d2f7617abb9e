package compat

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
)

// Calls of grpc-go wait on channels for goroutines of its transport, so a task makes them with
// spindle.Blocking. The connection is one of package stream: it belongs to the run, and a
// simulated world can carry it.
func Example_grpcClient() {
	services := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(services, interop.NewTestServer())
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		server := &web.Server{Handler: services, Protocols: new(http.Protocols)}
		server.Protocols.SetUnencryptedHTTP2(true)
		sv, err := server.Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer sv.Shutdown(ctx)

		dial := stream.Dialer{Context: ctx}
		conn, err := grpc.NewClient(sv.Addr().String(),
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return dial.DialContext(ctx, "tcp", address)
			}))
		if err != nil {
			return err
		}
		client := testgrpc.NewTestServiceClient(conn)
		answer, err := spindle.Blocking(ctx, func() (*testgrpc.SimpleResponse, error) {
			defer conn.Close()
			return client.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseSize: 5})
		})
		if err == nil {
			fmt.Println(len(answer.Payload.Body), "bytes")
		}
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 5 bytes
}

// TestGRPCClientOverStream runs interoperability tests of grpc-go with connections of package
// stream, to its own server.
func TestGRPCClientOverStream(t *testing.T) {
	server := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(ln)
	defer server.Stop()
	err = spindle.Run(t.Context(), func(ctx context.Context) error {
		dial := stream.Dialer{Context: ctx}
		conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return dial.DialContext(ctx, "tcp", address)
			}))
		if err != nil {
			return err
		}
		client := testgrpc.NewTestServiceClient(conn)
		_, err = spindle.Blocking(ctx, func() (int, error) {
			defer conn.Close()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			interop.DoEmptyUnaryCall(ctx, client)
			interop.DoLargeUnaryCall(ctx, client)
			interop.DoClientStreaming(ctx, client)
			interop.DoServerStreaming(ctx, client)
			interop.DoPingPong(ctx, client)
			interop.DoCancelAfterFirstResponse(ctx, client)
			return 0, nil
		})
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestConnectOverTransport runs clients of connect-go over web.Transport, unary and streaming
// both ways.
func TestConnectOverTransport(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/echo.v1/Both", connect.NewBidiStreamHandler("/echo.v1/Both", func(_ context.Context, s *connect.BidiStream[wrapperspb.StringValue, wrapperspb.StringValue]) error {
		for {
			m, err := s.Receive()
			if err != nil {
				return nil
			}
			if err := s.Send(wrapperspb.String("got " + m.Value)); err != nil {
				return err
			}
		}
	}))
	mux.Handle("/echo.v1/Unary", connect.NewUnaryHandler("/echo.v1/Unary", func(_ context.Context, r *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
		return connect.NewResponse(wrapperspb.String("got " + r.Msg.Value)), nil
	}))
	base := "http://" + serveWeb(t, false, mux).String()
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		tr := &web.Transport{Protocols: new(http.Protocols), Context: ctx}
		tr.Protocols.SetUnencryptedHTTP2(true)
		c := &http.Client{Transport: tr}
		_, err := spindle.Blocking(ctx, func() (int, error) {
			for _, options := range [][]connect.ClientOption{nil, {connect.WithGRPC()}} {
				res, err := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](c, base+"/echo.v1/Unary", options...).
					CallUnary(context.Background(), connect.NewRequest(wrapperspb.String("x")))
				if err != nil || res.Msg.Value != "got x" {
					return 0, fmt.Errorf("got %v, %w", res, err)
				}
				both := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](c, base+"/echo.v1/Both", options...).CallBidiStream(context.Background())
				for i := range 20 {
					word := fmt.Sprint(i)
					if err := both.Send(wrapperspb.String(word)); err != nil {
						return 0, err
					}
					if m, err := both.Receive(); err != nil || m.Value != "got "+word {
						return 0, fmt.Errorf("got %v, %w", m, err)
					}
				}
				if err := both.CloseRequest(); err != nil {
					return 0, err
				}
				if _, err := both.Receive(); err == nil || connect.CodeOf(err) == connect.CodeInternal {
					return 0, fmt.Errorf("after the end: %w", err)
				}
				if err := both.CloseResponse(); err != nil && err != io.EOF {
					return 0, err
				}
			}
			return 0, nil
		})
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
