package webgrpc_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/web/webgrpc"
)

// The health service of grpc-go, in tasks on the loop, and a client of grpc-go.
func Example() {
	calls := &webgrpc.Server{}
	healthpb.RegisterHealthServer(calls, health.NewServer())
	server := &web.Server{Handler: web.Inline(calls), Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	listens := make(chan net.Addr)
	server.OnListen = func(a net.Addr) { listens <- a }

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.ListenAndServe(ctx, "127.0.0.1:0") }()

	conn, err := grpc.NewClient((<-listens).String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Status)
	conn.Close()
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output: SERVING
}
