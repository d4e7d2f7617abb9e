package gateway_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
)

// A handler turns a request into a call, and the reply into the response.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	bus := relay.NewLocal(relay.LocalOptions{})
	defer bus.Close()
	ready, ended := make(chan bool), make(chan error)
	go func() {
		ended <- relay.NewWorker(bus).Serve(ctx, "upper", func(ctx context.Context, r *relay.Request) ([]byte, error) {
			return []byte(strings.ToUpper(string(r.Body))), nil
		}, relay.ServeOptions{Ready: func() { close(ready) }})
	}()
	defer func() { cancel(); <-ended }()
	<-ready
	caller, err := relay.NewCaller(ctx, bus, relay.CallerOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer caller.Close()
	response := httptest.NewRecorder()
	gateway.New(caller, gateway.Route{Subject: "upper"}).ServeHTTP(response, httptest.NewRequest("POST", "/", strings.NewReader("hello")))
	fmt.Println(response.Code, response.Body)
	// Output: 200 HELLO
}
