package webgrpc_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // registers it
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/web/webgrpc"
)

// post sends a request as it is written, and returns the response with its body and trailers read.
func post(t *testing.T, addr, path string, header map[string]string, body []byte) *http.Response {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(header["http"] != "1")
	tr.Protocols.SetHTTP1(header["http"] == "1")
	defer tr.CloseIdleConnections()
	method := "POST"
	if m := header["method"]; m != "" {
		method = m
	}
	req, err := http.NewRequestWithContext(minute(t), method, "http://"+addr+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	for name, value := range header {
		if name != "method" && name != "http" {
			req.Header.Set(name, value)
		}
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	return res
}

// framed returns a message with its prefix.
func framed(flag byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message))), message...)
}

func zipped(p []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(p)
	_ = w.Close()
	return b.Bytes()
}

const unaryPath = "/grpc.testing.TestService/UnaryCall"

// TestBadRequests: what is not a call is refused, and a bad call has a status that says why.
func TestBadRequests(t *testing.T) {
	calls := &webgrpc.Server{MaxReceiveBytes: 1000}
	testgrpc.RegisterTestServiceServer(calls, &service{unary: func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
		return &testgrpc.SimpleResponse{}, nil
	}})
	addr := serve(t, web.Inline(calls))
	type header = map[string]string
	for _, tt := range []struct {
		name   string
		path   string
		header header
		body   []byte
		http   int
		code   codes.Code
	}{
		{"good", unaryPath, nil, framed(0, nil), 200, codes.OK},
		{"good subtype", unaryPath, header{"Content-Type": "application/grpc+proto"}, framed(0, nil), 200, codes.OK},
		{"good gzip", unaryPath, header{"Grpc-Encoding": "gzip"}, framed(1, zipped(nil)), 200, codes.OK},
		{"good timeout", unaryPath, header{"Grpc-Timeout": "99999999H"}, framed(0, nil), 200, codes.OK},
		{"GET", unaryPath, header{"method": "GET"}, nil, 405, 0},
		{"HTTP/1.1", unaryPath, header{"http": "1"}, framed(0, nil), 505, 0},
		{"content type", unaryPath, header{"Content-Type": "application/json"}, framed(0, nil), 415, 0},
		{"content type with a suffix", unaryPath, header{"Content-Type": "application/grpcx"}, framed(0, nil), 415, 0},
		{"no content type", unaryPath, header{"Content-Type": ""}, framed(0, nil), 415, 0},
		{"timeout without a unit", unaryPath, header{"Grpc-Timeout": "12"}, framed(0, nil), 400, 0},
		{"long timeout", unaryPath, header{"Grpc-Timeout": "123456789S"}, framed(0, nil), 400, 0},
		{"binary metadata", unaryPath, header{"K-Bin": "???"}, framed(0, nil), 400, 0},
		{"unknown service", "/x/y", nil, framed(0, nil), 200, codes.Unimplemented},
		{"unknown method", "/grpc.testing.TestService/X", nil, framed(0, nil), 200, codes.Unimplemented},
		{"malformed method", "/x", nil, framed(0, nil), 200, codes.Unimplemented},
		{"no message", unaryPath, nil, nil, 200, codes.Internal},
		{"half a prefix", unaryPath, nil, []byte{0, 0}, 200, codes.Internal},
		{"half a message", unaryPath, nil, framed(0, make([]byte, 9))[:8], 200, codes.Internal},
		{"not a message", unaryPath, nil, framed(0, []byte{0xff}), 200, codes.Internal},
		{"too large", unaryPath, nil, framed(0, make([]byte, 1001)), 200, codes.ResourceExhausted},
		{"too large when decompressed", unaryPath, header{"Grpc-Encoding": "gzip"}, framed(1, zipped(make([]byte, 1001))), 200, codes.ResourceExhausted},
		{"not gzip", unaryPath, header{"Grpc-Encoding": "gzip"}, framed(1, []byte("x")), 200, codes.Internal},
		{"unknown encoding", unaryPath, header{"Grpc-Encoding": "x"}, framed(1, nil), 200, codes.Unimplemented},
		{"compressed without an encoding", unaryPath, nil, framed(1, nil), 200, codes.Internal},
		{"unknown flag", unaryPath, nil, framed(2, nil), 200, codes.Internal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := post(t, addr, tt.path, tt.header, tt.body)
			if res.StatusCode != tt.http {
				t.Fatalf("got %s", res.Status)
			}
			if tt.http != 200 {
				return
			}
			code := res.Header.Get("Grpc-Status") + res.Trailer.Get("Grpc-Status")
			if code != fmt.Sprint(int(tt.code)) {
				t.Errorf("got status %q %q, want %d", code, res.Header.Get("Grpc-Message"), tt.code)
			}
		})
	}
}

// TestLengthIsNotTrusted: a prefix that promises much does not make the server allocate it.
func TestLengthIsNotTrusted(t *testing.T) {
	calls := &webgrpc.Server{MaxReceiveBytes: 1 << 30}
	testgrpc.RegisterTestServiceServer(calls, &service{})
	addr := serve(t, web.Inline(calls))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res := post(t, addr, unaryPath, nil, []byte{0, 0x3f, 0xff, 0xff, 0xff, 1, 2, 3})
	runtime.ReadMemStats(&after)
	if got := res.Header.Get("Grpc-Status"); got != "13" {
		t.Errorf("got status %q", got)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}

// TestInterceptors: the first one is the outermost.
func TestInterceptors(t *testing.T) {
	var mu sync.Mutex
	var order []string
	note := func(what ...string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what...)
	}
	taken := func() []string {
		mu.Lock()
		defer mu.Unlock()
		all := order
		order = nil
		return all
	}
	calls := &webgrpc.Server{}
	for _, name := range []string{"1", "2", "3"} {
		calls.Unary = append(calls.Unary, func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			note(name, info.FullMethod)
			defer note("/" + name)
			return handler(ctx, req)
		})
		calls.Stream = append(calls.Stream, func(impl any, s grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			note(name, fmt.Sprint(info.FullMethod, info.IsClientStream, info.IsServerStream))
			return handler(impl, s)
		})
	}
	testgrpc.RegisterTestServiceServer(calls, &service{
		unary: func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
			note("method")
			return &testgrpc.SimpleResponse{}, nil
		},
		both: func(testgrpc.TestService_FullDuplexCallServer) error { return status.Error(codes.Aborted, "") },
	})
	client := testgrpc.NewTestServiceClient(dial(t, serve(t, web.Inline(calls))))
	if _, err := client.UnaryCall(minute(t), &testgrpc.SimpleRequest{}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"1", unaryPath, "2", unaryPath, "3", unaryPath, "method", "/3", "/2", "/1"}; !slices.Equal(taken(), want) {
		t.Error("the order of unary interceptors is wrong")
	}
	both, err := client.FullDuplexCall(minute(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := both.Recv(); status.Code(err) != codes.Aborted {
		t.Errorf("got %v", err)
	}
	full := "/grpc.testing.TestService/FullDuplexCalltrue true"
	if want := []string{"1", full, "2", full, "3", full}; !slices.Equal(taken(), want) {
		t.Error("the order of stream interceptors is wrong")
	}
}

// TestReflection: the reflection service of grpc-go finds the services of a Server.
func TestReflection(t *testing.T) {
	calls := &webgrpc.Server{}
	healthpb.RegisterHealthServer(calls, health.NewServer())
	reflection.Register(calls)
	stream, err := reflectionpb.NewServerReflectionClient(dial(t, serve(t, web.Inline(calls)))).ServerReflectionInfo(minute(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	got, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if s := got.String(); !strings.Contains(s, "grpc.health.v1.Health") || !strings.Contains(s, "grpc.reflection.v1.ServerReflection") {
		t.Errorf("got %s", s)
	}
	_ = stream.CloseSend()
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("got %v", err)
	}
}

// TestRegisterMisuse: mistakes of the program panic, with a message that names the service.
func TestRegisterMisuse(t *testing.T) {
	panics := func(name string, do func()) {
		t.Helper()
		defer func() {
			if text, _ := recover().(string); !strings.HasPrefix(text, "webgrpc: RegisterService") {
				t.Errorf("%s: got %q", name, text)
			}
		}()
		do()
	}
	calls := &webgrpc.Server{}
	healthpb.RegisterHealthServer(calls, health.NewServer())
	panics("twice", func() { healthpb.RegisterHealthServer(calls, health.NewServer()) })
	panics("wrong type", func() { (&webgrpc.Server{}).RegisterService(&healthpb.Health_ServiceDesc, 1) })
	post(t, serve(t, calls), "/x", nil, nil)
	panics("late", func() { testgrpc.RegisterTestServiceServer(calls, &service{}) })
}
