// Command grpc is a gRPC server with calls that echo, or a client that checks one. It is a command of its own
// so that the bench command does not link gRPC.
//
//	grpc --addr 127.0.0.1:0 webgrpc-inline
//	grpc --check 127.0.0.1:1234
//	grpc --calls 15000 --at-once 512 ServeHTTP-alone
//
// One is grpc-go with its own transport, three are its Server.ServeHTTP on package web, on net/http and
// without any server, and two are package webgrpc.
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
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"

	"github.com/spindleloop/spindle/bench/proc"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/web/webgrpc"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "where to listen")
	checked := flag.String("check", "", "check the server at this address")
	calls := flag.Int("calls", 0, "calls of ServeHTTP-alone")
	atOnce := flag.Int("at-once", 1, "how many of them at a time")
	profiles := flag.String("profiles", "", "a directory for CPU profiles")
	flag.Parse()
	err := proc.Profile(*profiles, flag.Arg(0))
	switch {
	case err != nil:
	case *checked != "":
		err = check(*checked)
	case flag.Arg(0) == "ServeHTTP-alone":
		err = serveAlone(*calls, *atOnce)
	default:
		err = serve(flag.Arg(0), *addr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "grpc:", err)
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
func serve(kind, addr string) error {
	s := &web.Server{Protocols: new(http.Protocols)}
	s.Protocols.SetUnencryptedHTTP2(true)
	theirs, ours := grpc.NewServer(), &webgrpc.Server{}
	testgrpc.RegisterTestServiceServer(theirs, echo{})
	testgrpc.RegisterTestServiceServer(ours, echo{})
	switch kind {
	case "grpc-go", "ServeHTTP-nethttp":
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		fmt.Println("listening on", ln.Addr())
		if kind == "grpc-go" {
			return theirs.Serve(ln)
		}
		return (&http.Server{Handler: theirs, Protocols: s.Protocols}).Serve(ln)
	case "ServeHTTP-web":
		s.Handler = theirs
	case "webgrpc-goroutine":
		s.Handler = ours
	case "webgrpc-inline":
		s.Handler = web.Inline(ours)
	default:
		return fmt.Errorf("unknown server %q", kind)
	}
	l, err := loop.New(loop.Options{Watchdog: -1})
	if err != nil {
		return err
	}
	sv, err := s.Listen(l, "tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("listening on", sv.Addr())
	return l.Run(context.Background())
}
