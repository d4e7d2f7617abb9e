package transport_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// shouter replies in capitals; one value serves every connection.
type shouter struct{}

func (shouter) ConnectionMade(*transport.Conn)        {}
func (shouter) ConnectionLost(*transport.Conn, error) {}
func (shouter) DataReceived(c *transport.Conn, data []byte) {
	fmt.Fprint(c, strings.ToUpper(string(data)))
}

// caller sends a greeting and prints the reply.
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
	transport.Connect(ctx, l, "tcp", server.Addr().String(), transport.ConnectOptions{
		Protocol: caller{l},
		OnError:  func(err error) { log.Fatal(err) },
	})
	if err := l.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: HELLO
}

// A server on several loops: each connection belongs to one of them.
func ExampleListenGroup() {
	group, err := loop.NewGroup(2, loop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer group.Close()
	server, err := transport.ListenGroup(group, "tcp", "127.0.0.1:0", transport.Options{
		Protocol: func() transport.Protocol { return shouter{} },
		Spread:   transport.RoundRobin,
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() { // from any goroutine
		defer group.Stop()
		defer server.Close()
		for _, word := range []string{"one", "two"} {
			c, err := net.Dial("tcp", server.Addr().String())
			if err != nil {
				log.Fatal(err)
			}
			defer c.Close()
			answer := make([]byte, len(word))
			io.WriteString(c, word)
			io.ReadFull(c, answer)
			fmt.Printf("%s\n", answer)
		}
	}()
	if err := group.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// ONE
	// TWO
}

// printer prints what it receives, and stops the loop when the connection ends.
type printer struct{ l *loop.Loop }

func (printer) ConnectionMade(*transport.Conn) {}

func (printer) DataReceived(_ *transport.Conn, data []byte) { fmt.Print(string(data)) }

func (p printer) ConnectionLost(*transport.Conn, error) { p.l.Stop() }

// A pipe on the loop: its output is delivered by callbacks.
func ExampleWrap() {
	l, err := loop.New(loop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	r, w, err := os.Pipe()
	if err != nil {
		log.Fatal(err)
	}
	if _, err := transport.Wrap(l, r, printer{l}); err != nil {
		log.Fatal(err)
	}
	r.Close() // the connection has its own descriptor
	io.WriteString(w, "out of the pipe\n")
	w.Close()
	if err := l.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: out of the pipe
}

// A graceful shutdown: the server stops accepting, sends what was written, and after a
// while aborts the connections that are left.
func ExampleServer_Drain() {
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
	l.CallSoon(func() {
		server.Drain(func() {
			fmt.Println("drained")
			l.Stop()
		})
		server.EachConn(func(c *transport.Conn) { c.Close() })
		l.CallLater(10*time.Second, func() { server.EachConn((*transport.Conn).Abort) })
	})
	if err := l.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: drained
}

// downloads sends a file to every client.
type downloads struct{ f *os.File }

func (downloads) DataReceived(*transport.Conn, []byte) {}

func (downloads) ConnectionLost(c *transport.Conn, err error) { c.Loop().Stop() }

func (p downloads) ConnectionMade(c *transport.Conn) {
	io.WriteString(c, "here it comes: ")
	c.SendFile(p.f, 0, -1, func(error) { c.Close() })
}

// A file is sent in order with what is written.
func ExampleConn_SendFile() {
	l, err := loop.New(loop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	f, err := os.CreateTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	io.WriteString(f, "the file\n")
	server, err := transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{
		Protocol: func() transport.Protocol { return downloads{f} },
	})
	if err != nil {
		log.Fatal(err)
	}
	c, err := net.Dial("tcp", server.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := l.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	all, err := io.ReadAll(c)
	fmt.Print(string(all), err)
	// Output:
	// here it comes: the file
	// <nil>
}

// tlsCaller sends a message over TLS and prints the reply.
type tlsCaller struct{ l *loop.Loop }

func (tlsCaller) ConnectionMade(c *transport.Conn) {
	fmt.Println("secured:", c.TLS().HandshakeComplete)
	c.Write([]byte("psst"))
}

func (tlsCaller) DataReceived(c *transport.Conn, data []byte) {
	fmt.Printf("%s\n", data)
	c.Close()
}

func (s tlsCaller) ConnectionLost(*transport.Conn, error) { s.l.Stop() }

// A server and a client over TLS. A real server loads its certificate with
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
	transport.Connect(context.Background(), l, "tcp", server.Addr().String(), transport.ConnectOptions{
		TLS:      clientConfig,
		Protocol: tlsCaller{l},
		OnError:  func(err error) { log.Fatal(err) },
	})
	if err := l.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// secured: true
	// PSST
}

// A UDP server that replies in capitals.
func ExampleDatagram() {
	l, err := loop.New(loop.Options{})
	if err != nil {
		panic(err)
	}
	defer l.Close()
	server, err := transport.Datagram(l, &datagramScript{got: func(e *transport.Endpoint, p transport.Packet) {
		e.SendTo(bytes.ToUpper(p.Data), p.From)
	}}, transport.DatagramOptions{Local: "127.0.0.1:0"})
	if err != nil {
		panic(err)
	}
	_, err = transport.Datagram(l, &datagramScript{
		made: func(e *transport.Endpoint) { e.SendTo([]byte("hello"), transport.Addr{}) },
		got: func(e *transport.Endpoint, p transport.Packet) {
			fmt.Printf("%s\n", p.Data)
			l.Stop()
		},
	}, transport.DatagramOptions{Remote: server.Info().Local.String()})
	if err != nil {
		panic(err)
	}
	if err := l.Run(context.Background()); err != nil {
		panic(err)
	}
	// Output: HELLO
}

// mover hands each connection over to another loop, with the protocol for it there. It reads
// nothing before: what the peer has sent is received there.
type mover struct {
	to    *loop.Loop
	there transport.Protocol
}

func (m mover) ConnectionMade(c *transport.Conn) {
	nc, err := c.Detach()
	if err != nil {
		c.Abort()
		return
	}
	err = m.to.Post(func() {
		defer nc.Close() // Wrap has duplicated it
		if _, err := transport.Wrap(m.to, nc.(syscall.Conn), m.there); err != nil {
			log.Print(err)
		}
	})
	if err != nil {
		nc.Close()
	}
}
func (mover) DataReceived(*transport.Conn, []byte)  {}
func (mover) ConnectionLost(*transport.Conn, error) {}

// A connection moves to the loop that owns its room, where the state of the room needs no lock.
func ExampleConn_Detach() {
	g, err := loop.NewGroup(2, loop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	lobby, room := g.Loops()[0], g.Loops()[1]
	server, err := transport.Listen(lobby, "tcp", "127.0.0.1:0", transport.Options{
		Protocol: func() transport.Protocol { return mover{room, printer{room}} },
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		c, err := net.Dial("tcp", server.Addr().String())
		if err != nil {
			log.Fatal(err)
		}
		io.WriteString(c, "to the room\n")
		c.Close()
	}()
	if err := g.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: to the room
}
