package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// BenchmarkServeHTTPAlone measures grpc-go's ServeHTTP without a server: the request is in
// memory, and the response is dropped. It is a bound for every server that calls ServeHTTP.
//
//	go test -run - -bench ServeHTTPAlone -cpu 1 ./grpc
func BenchmarkServeHTTPAlone(b *testing.B) {
	s := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, echo{})
	body, err := call()
	if err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(512) // calls at the same time, as under h2load
	b.ReportAllocs()
	before := cpu(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			ctx, cancel := context.WithCancel(context.Background())
			w := &dropped{header: make(http.Header)}
			s.ServeHTTP(w, newRequest(ctx, body))
			cancel()
			if w.bytes != len(body) || w.header.Get("Grpc-Status") != "0" {
				b.Error("a wrong answer")
			}
		}
	})
	b.ReportMetric(float64(b.N)/(cpu(b)-before).Seconds(), "calls/CPU-s")
}

func newRequest(ctx context.Context, body []byte) *http.Request {
	r := &http.Request{
		Method: "POST", URL: &url.URL{Path: testgrpc.TestService_UnaryCall_FullMethodName}, ProtoMajor: 2, Host: "127.0.0.1",
		Header: http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "User-Agent": {"h2load"}},
		Body:   io.NopCloser(bytes.NewReader(body)),
	}
	return r.WithContext(ctx)
}

// cpu returns the CPU time that the process has used.
func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// dropped counts the bytes of a response.
type dropped struct {
	header http.Header
	bytes  int
}

func (d *dropped) Header() http.Header { return d.header }
func (d *dropped) WriteHeader(int)     {}
func (d *dropped) Flush()              {}
func (d *dropped) Write(p []byte) (int, error) {
	d.bytes += len(p)
	return len(p), nil
}
