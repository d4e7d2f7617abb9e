// Grpc compares gRPC servers under h2load: unary calls with 64 bytes, for each second of the
// server's CPU.
//
//	go run ./grpc
//
// One is grpc-go with its own transport, two are its Server.ServeHTTP on package web and on net/http, and
// two are package webgrpc. Every server has one loop, or one Go processor.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"

	"github.com/spindleloop/spindle/bench/h2load"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/web/webgrpc"
)

var (
	load    h2load.Load
	serveAs = flag.String("serve", "", "serve as this server; for the processes that are measured")
	only    = flag.String("servers", "grpc-go,ServeHTTP,ServeHTTP-net/http,goroutine,inline", "which servers; ratios are to the first one")
)

func main() {
	load.Flags()
	flag.Parse()
	var err error
	if *serveAs != "" {
		if err = load.Profile(*serveAs); err == nil {
			err = serve(*serveAs)
		}
	} else {
		err = compare(strings.Split(*only, ","))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// echo answers with the payload of the request.
type echo struct {
	testgrpc.UnimplementedTestServiceServer
}

func (echo) UnaryCall(_ context.Context, r *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	return &testgrpc.SimpleResponse{Payload: r.Payload}, nil
}

var request = &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: make([]byte, 64)}}

func compare(kinds []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var servers []*h2load.Server
	for _, kind := range kinds {
		servers = append(servers, &h2load.Server{Name: kind, Command: []string{self, "-serve", kind, "-profiles", load.Profiles}})
	}
	if load.Body, err = call(); err != nil {
		return err
	}
	load.Path = testgrpc.TestService_UnaryCall_FullMethodName
	load.Header = []string{"content-type: application/grpc", "te: trailers"}
	return h2load.Compare(servers, load, check)
}

// call returns the body of a call: the message and its length.
func call() ([]byte, error) {
	message, err := proto.Marshal(request)
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...), err
}

// check makes a call, because h2load does not look at the status.
func check(addr string) error {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer, err := testgrpc.NewTestServiceClient(conn).UnaryCall(ctx, request)
	if err == nil && !bytes.Equal(answer.Payload.Body, request.Payload.Body) {
		err = errors.New("a wrong answer")
	}
	return err
}

// serve runs a server. It prints its address.
func serve(kind string) error {
	runtime.GOMAXPROCS(1)
	s := &web.Server{Protocols: new(http.Protocols)}
	s.Protocols.SetUnencryptedHTTP2(true)
	theirs, ours := grpc.NewServer(), &webgrpc.Server{}
	testgrpc.RegisterTestServiceServer(theirs, echo{})
	testgrpc.RegisterTestServiceServer(ours, echo{})
	switch kind {
	case "grpc-go":
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println(h2load.Announcement + ln.Addr().String())
		return theirs.Serve(ln)
	case "ServeHTTP-net/http":
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println(h2load.Announcement + ln.Addr().String())
		return (&http.Server{Handler: theirs, Protocols: s.Protocols}).Serve(ln)
	case "ServeHTTP":
		s.Handler = theirs
	case "goroutine":
		s.Handler = ours
	case "inline":
		s.Handler = web.Inline(ours)
	default:
		return fmt.Errorf("unknown server %q", kind)
	}
	l, err := loop.New(loop.Options{Watchdog: -1})
	if err != nil {
		return err
	}
	sv, err := s.Listen(l, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(h2load.Announcement + sv.Addr().String())
	return l.Run(context.Background())
}
