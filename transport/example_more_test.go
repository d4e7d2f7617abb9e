package transport_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"time"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// A server on several loops: each connection lives on one of them.
func ExampleListenGroup() {
	group, err := loop.NewGroup(2, loop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer group.Close()
	server, err := transport.ListenGroup(group, "tcp", "127.0.0.1:0", transport.GroupOptions{
		Options: transport.Options{Protocol: func() transport.Protocol { return shouter{} }},
		Spread:  transport.RoundRobin,
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

// printer prints what comes, and ends the loop with the connection.
type printer struct{ l *loop.Loop }

func (printer) ConnectionMade(*transport.Conn)              {}
func (printer) DataReceived(_ *transport.Conn, data []byte) { fmt.Print(string(data)) }
func (p printer) ConnectionLost(*transport.Conn, error)     { p.l.Stop() }

// A pipe on the loop: whatever comes out of it is a callback.
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

// A server that ends in order: nobody new, what is written is sent, and whoever has
// not taken it after a while is cut off.
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
		server.CloseConns()
		l.CallLater(10*time.Second, server.AbortConns)
	})
	if err := l.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: drained
}

// downloads sends a file to whoever connects.
type downloads struct{ f *os.File }

func (downloads) DataReceived(*transport.Conn, []byte)        {}
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
