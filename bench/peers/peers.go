// Package peers holds the echo and HTTP servers Spindle is compared with.
//
// Those written in Go are linked into the bench command and run one per child
// process (`bench serve NAME`); those in other languages lie beside them as
// source (see [Sources]) and are compiled or interpreted where their tools are
// installed. Each is written the way its own authors recommend for speed, with
// one event loop and TCP_NODELAY, because a comparison with a peer at anything
// but its best says nothing.
package peers

import (
	"fmt"
	"io"
	"net"
	"slices"
)

// Options is what a peer may know about the load to come.
type Options struct {
	// Addr is the host:port to listen on; port 0 picks a free one.
	Addr string
	// BufferBytes is the largest burst a client sends at once. Peers that keep
	// a buffer for each connection take it as that buffer's size, which is the
	// best choice for both their speed and their memory.
	BufferBytes int
	// Ready is told the real address, once, when connecting to it succeeds.
	Ready func(net.Addr)
}

// servers are the peers written in Go. Serve blocks for as long as it serves.
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
	"nbio-ws":        serveNbioWS,
}

// Names lists the peers written in Go, sorted.
func Names() []string {
	names := make([]string, 0, len(servers))
	for name := range servers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Serve runs the named peer and prints "listening on ADDR" to out when it is ready.
func Serve(name, addr string, bufferBytes int, out io.Writer) error {
	serve, ok := servers[name]
	if !ok {
		return fmt.Errorf("peers: no server %q; there are %v", name, Names())
	}
	return serve(Options{
		Addr:        addr,
		BufferBytes: bufferBytes,
		Ready:       func(addr net.Addr) { fmt.Fprintf(out, "listening on %s\n", addr) },
	})
}
