package webgrpc_test

import (
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/spindleloop/spindle/either"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/web/webgrpc"
)

// TestInterop runs the interoperability tests of grpc-go, with its client, against a Server in
// tasks and on goroutines, with and without compression.
func TestInterop(t *testing.T) {
	calls := &webgrpc.Server{}
	testgrpc.RegisterTestServiceServer(calls, patientServer{interop.NewTestServer()})
	for name, h := range map[string]http.Handler{"inline": web.Inline(calls), "goroutine": calls} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, h)
			t.Run("plain", func(t *testing.T) { runInterop(t, dial(t, addr)) })
			t.Run("gzip", func(t *testing.T) {
				runInterop(t, dial(t, addr, grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name))))
			})
		})
	}
}

// patientServer does not answer the call of DoCancelAfterBegin, which has metadata. Otherwise the reply could come
// before the client has noticed its own cancellation, and the client may choose either.
type patientServer struct{ testgrpc.TestServiceServer }

func (s patientServer) StreamingInputCall(calls testgrpc.TestService_StreamingInputCallServer) error {
	if values := metadata.ValueFromIncomingContext(calls.Context(), "key1"); len(values) > 0 {
		return either.Sleep(calls.Context(), time.Hour)
	}
	return s.TestServiceServer.StreamingInputCall(calls)
}

func runInterop(t *testing.T, conn *grpc.ClientConn) {
	ctx, client := minute(t), testgrpc.NewTestServiceClient(conn)
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
