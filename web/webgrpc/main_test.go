package webgrpc_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/web"
)

func TestMain(m *testing.M) { leak.Main(m) }

// serve runs a plain HTTP/2 server until the test ends, and returns its address.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := &web.Server{Handler: h, Protocols: new(http.Protocols), Loops: 1}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	listens := make(chan net.Addr, 1)
	s.OnListen = func(a net.Addr) { listens <- a }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.ListenAndServe(ctx, "127.0.0.1:0") }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case a := <-listens:
		return a.String()
	case err := <-ended:
		t.Fatal(err)
		return ""
	}
}

// dial returns a client's connection to addr.
func dial(t testing.TB, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// minute returns a context that ends a test that hangs.
func minute(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
