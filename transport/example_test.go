package transport_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// shouter answers in capitals; one value serves every connection.
type shouter struct{}

func (shouter) ConnectionMade(*transport.Conn)        {}
func (shouter) ConnectionLost(*transport.Conn, error) {}
func (shouter) DataReceived(c *transport.Conn, data []byte) {
	fmt.Fprint(c, strings.ToUpper(string(data)))
}

// caller says one thing and prints the answer.
type caller struct{ l *loop.Loop }

func (caller) ConnectionMade(c *transport.Conn) { fmt.Fprint(c, "hello") }
func (caller) DataReceived(c *transport.Conn, data []byte) {
	fmt.Println(string(data))
	c.Close()
}
func (p caller) ConnectionLost(*transport.Conn, error) { p.l.Stop() }

func Example() {
	l, err := loop.New(loop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	server, err := transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{
		Protocol: func() transport.Protocol { return shouter{} },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	transport.Connect(ctx, l, "tcp", server.Addr().String(), caller{l}, transport.ConnectOptions{}, func(err error) {
		log.Fatal(err)
	})
	if err := l.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: HELLO
}
