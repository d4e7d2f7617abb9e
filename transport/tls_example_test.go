package transport_test

import (
	"context"
	"fmt"
	"log"

	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// secret is a client that says something over TLS, and prints the answer.
type secret struct{ l *loop.Loop }

func (secret) ConnectionMade(c *transport.Conn) {
	fmt.Println("secured:", c.TLS().HandshakeComplete)
	c.Write([]byte("psst"))
}

func (secret) DataReceived(c *transport.Conn, data []byte) {
	fmt.Printf("%s\n", data)
	c.Close()
}

func (s secret) ConnectionLost(*transport.Conn, error) { s.l.Stop() }

// A server and a client over TLS. A real server's certificate comes from
// tls.LoadX509KeyPair.
func ExampleConn_TLS() {
	serverConfig, clientConfig := tlstest.Identity().Server, tlstest.Identity().Client
	l, err := loop.New(loop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	server, err := transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{
		TLS:      serverConfig,
		Protocol: func() transport.Protocol { return shouter{} },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	transport.Connect(context.Background(), l, "tcp", server.Addr().String(), secret{l},
		transport.ConnectOptions{TLS: clientConfig}, func(err error) { log.Fatal(err) })
	if err := l.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// secured: true
	// PSST
}
