package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/spindleloop/spindle/bench/proc"
)

// serveAlone calls grpc-go's ServeHTTP without a server: the request is in memory, and the response is
// dropped. It prints the calls for each second of CPU time, which is a bound for every server
// that calls ServeHTTP.
func serveAlone(calls, atOnce int) error {
	s := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, echo{})
	body, err := call()
	if err != nil {
		return err
	}
	var left, wrong atomic.Int64
	left.Store(int64(calls))
	before, err := proc.CPUTime(os.Getpid())
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				ctx, cancel := context.WithCancel(context.Background())
				w := &dropped{header: make(http.Header)}
				s.ServeHTTP(w, newRequest(ctx, body))
				cancel()
				if w.bytes != len(body) || w.header.Get("Grpc-Status") != "0" {
					wrong.Add(1)
				}
			}
		})
	}
	all.Wait()
	if wrong.Load() > 0 {
		return errors.New("a wrong answer")
	}
	after, err := proc.CPUTime(os.Getpid())
	fmt.Println(float64(calls) / (after - before).Seconds())
	return err
}

func newRequest(ctx context.Context, body []byte) *http.Request {
	r := &http.Request{
		Method: "POST", URL: &url.URL{Path: testgrpc.TestService_UnaryCall_FullMethodName}, ProtoMajor: 2, Host: "127.0.0.1",
		Header: http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "User-Agent": {"h2load"}},
		Body:   io.NopCloser(bytes.NewReader(body)),
	}
	return r.WithContext(ctx)
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
