// Package peers has the echo, HTTP and WebSocket servers that Spindle is compared with.
//
// Those written in Go are linked into the bench command, except for nbio's WebSocket server,
// and each runs in a child process (`bench serve NAME`). Those in other languages are embedded as source (see [Sources])
// and are compiled or interpreted where their tools are installed. Each is written as its
// authors recommend for speed, with one event loop and TCP_NODELAY: a comparison is
// meaningful only with a peer at its best.
package peers

import (
	"fmt"
	"io"
	"net"
	"slices"
)

// Options configures a peer for the load.
type Options struct {
	// Addr is the host:port to listen on; port 0 selects a free port.
	Addr string
	// BufferBytes is the largest burst that a client sends. Peers with a buffer for
	// each connection use it as the buffer's size, which is best for both speed and
	// memory.
	BufferBytes int
	// TLS and HTTP2 say what an HTTP server speaks, with a certificate of its own.
	TLS, HTTP2 bool
	// Ready is called once with the real address, when the server accepts
	// connections.
	Ready func(net.Addr)
}

// servers has the peers written in Go. Each function blocks while it serves.
var servers = map[string]func(Options) error{
	"evio":    serveEvio,
	"gaio":    serveGaio,
	"gnet":    serveGnet,
	"gonet":   serveGoNet,
	"nbio":    serveNbio,
	"netpoll": serveNetpoll,

	"spindle-lean":      serveLean,
	"spindle-inline":    serveInline,
	"spindle-goroutine": serveGoroutine,
	"nethttp":           serveNetHTTP,
	"fasthttp":          serveFastHTTP,

	"spindle-socket": serveSocket,
	"spindle-conn":   serveConn,
	"gorilla":        serveGorilla,
}

// Names returns the names of the peers written in Go, sorted.
func Names() []string {
	names := make([]string, 0, len(servers))
	for name := range servers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Serve runs the named peer and prints "listening on ADDR" to out when it is ready.
func Serve(name string, o Options, out io.Writer) error {
	serve, ok := servers[name]
	if !ok {
		return fmt.Errorf("peers: no server %q; there are %v", name, Names())
	}
	o.Ready = func(addr net.Addr) { fmt.Fprintf(out, "listening on %s\n", addr) }
	return serve(o)
}
