package compat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestGRPC runs the interoperability tests of grpc-go against its Server.ServeHTTP on package
// web, unary and streaming both ways.
func TestGRPC(t *testing.T) {
	server := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	addr := serveWeb(t, false, server)
	conn, err := grpc.NewClient(addr.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := testgrpc.NewTestServiceClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, tt := range []struct {
		name string
		do   func()
	}{
		{"empty unary", func() { interop.DoEmptyUnaryCall(ctx, client) }},
		{"large unary", func() { interop.DoLargeUnaryCall(ctx, client) }},
		{"client streaming", func() { interop.DoClientStreaming(ctx, client) }},
		{"server streaming", func() { interop.DoServerStreaming(ctx, client) }},
		{"ping pong", func() { interop.DoPingPong(ctx, client) }},
		{"empty stream", func() { interop.DoEmptyStream(ctx, client) }},
		{"timeout", func() { interop.DoTimeoutOnSleepingServer(ctx, client) }},
		{"cancel after begin", func() { interop.DoCancelAfterBegin(ctx, client) }},
		{"cancel after the first response", func() { interop.DoCancelAfterFirstResponse(ctx, client) }},
		{"custom metadata", func() { interop.DoCustomMetadata(ctx, client) }},
		{"status", func() { interop.DoStatusCodeAndMessage(ctx, client) }},
		{"special status", func() { interop.DoSpecialStatusMessage(ctx, client) }},
		{"unimplemented method", func() { interop.DoUnimplementedMethod(ctx, conn) }},
		{"unimplemented service", func() { interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(conn)) }},
	} {
		t.Run(tt.name, func(*testing.T) { tt.do() }) // a failure ends the process with a message
	}
}

// TestGRPCIO calls grpc-go's service on package web with the client of grpcio, Python's gRPC:
// unary, streaming both ways, and an error.
func TestGRPCIO(t *testing.T) {
	const python = "/usr/bin/python3" // Debian's, which has the packages that .ci/run installs
	if err := exec.Command(python, "-c", "import grpc").Run(); err != nil {
		t.Skip("grpcio is not installed; on Debian: apt-get install python3-grpcio")
	}
	server := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	addr := serveWeb(t, false, server)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, python, "-c", `
import grpc, sys
c = grpc.insecure_channel(sys.argv[1])
print(c.unary_unary("/grpc.testing.TestService/EmptyCall")(b""))
# SimpleRequest{response_size: 5}, and StreamingOutputCallRequest{response_parameters: {size: 3}}
print(len(c.unary_unary("/grpc.testing.TestService/UnaryCall")(b"\x10\x05")))
both = c.stream_stream("/grpc.testing.TestService/FullDuplexCall")
print([len(m) for m in both(iter([b"\x12\x02\x08\x03"] * 4))])
try:
    c.unary_unary("/grpc.testing.TestService/NoSuchCall")(b"")
except grpc.RpcError as e:
    print(e.code())
`, addr.String()).CombinedOutput()
	if got, want := string(out), "b''\n9\n[7, 7, 7, 7]\nStatusCode.UNIMPLEMENTED\n"; err != nil || got != want {
		t.Errorf("it printed %q, %v; want %q", got, err, want)
	}
}

// TestConnect runs handlers of connect-go, with its own protocol and with that of gRPC.
func TestConnect(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/echo.v1/Unary", connect.NewUnaryHandler("/echo.v1/Unary", func(_ context.Context, r *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
		if r.Msg.Value == "fail" {
			return nil, connect.NewError(connect.CodeNotFound, errors.New("on purpose"))
		}
		return connect.NewResponse(wrapperspb.String("got " + r.Msg.Value)), nil
	}))
	mux.Handle("/echo.v1/Both", connect.NewBidiStreamHandler("/echo.v1/Both", func(_ context.Context, s *connect.BidiStream[wrapperspb.StringValue, wrapperspb.StringValue]) error {
		for {
			m, err := s.Receive()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := s.Send(wrapperspb.String("got " + m.Value)); err != nil {
				return err
			}
		}
	}))
	base := "http://" + serveWeb(t, false, mux).String()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	for name, options := range map[string][]connect.ClientOption{"connect": nil, "gRPC": {connect.WithGRPC()}} {
		t.Run(name, func(t *testing.T) {
			unary := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](&http.Client{Transport: tr}, base+"/echo.v1/Unary", options...)
			res, err := unary.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("x")))
			if err != nil || res.Msg.Value != "got x" {
				t.Errorf("got %v, %v", res, err)
			}
			_, err = unary.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("fail")))
			if connect.CodeOf(err) != connect.CodeNotFound {
				t.Errorf("got %v", err)
			}
			both := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](&http.Client{Transport: tr}, base+"/echo.v1/Both", options...).CallBidiStream(t.Context())
			for i := range 20 {
				word := fmt.Sprint(i)
				if err := both.Send(wrapperspb.String(word)); err != nil {
					t.Fatal(err)
				}
				if m, err := both.Receive(); err != nil || m.Value != "got "+word {
					t.Fatalf("got %v, %v", m, err)
				}
			}
			if err := both.CloseRequest(); err != nil {
				t.Error(err)
			}
			if _, err := both.Receive(); !errors.Is(err, io.EOF) {
				t.Errorf("got %v", err)
			}
			if err := both.CloseResponse(); err != nil {
				t.Error(err)
			}
		})
	}
}
