// Command nbiows is a WebSocket echo server of nbio. It is a command of its own because
// importing nbio's package websocket allocates a channel of a megabyte: linked into the
// bench command, the garbage collector of every other server in Go would scan it in each
// cycle.
package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/lesismal/nbio/logging"
	"github.com/lesismal/nbio/nbhttp"
	"github.com/lesismal/nbio/nbhttp/websocket"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "host:port to listen on")
	flag.Parse()
	fmt.Fprintln(os.Stderr, "nbiows:", serve(*addr))
	os.Exit(1)
}

// serve runs one poller, and returns only with an error. It handles messages in the reading goroutine, as nbio's authors
// recommend for handlers that do not block.
func serve(listen string) error {
	logging.SetLevel(logging.LevelError)
	u := websocket.NewUpgrader()
	u.OnMessage(func(c *websocket.Conn, kind websocket.MessageType, message []byte) { c.WriteMessage(kind, message) })
	engine := nbhttp.NewEngine(nbhttp.Config{
		Network:        "tcp4",
		Addrs:          []string{listen},
		NPoller:        1,
		Handler:        http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { u.Upgrade(w, r, nil) }),
		ServerExecutor: func(fn func()) { fn() },
	})
	if err := engine.Start(); err != nil {
		return err
	}
	addr, err := net.ResolveTCPAddr("tcp4", engine.Addrs[0])
	if err != nil {
		return err
	}
	fmt.Printf("listening on %s\n", addr)
	select {}
}
