package peers

import (
	"context"
	"net"
	"net/http"

	"github.com/gorilla/websocket"
	"github.com/lesismal/nbio/logging"
	"github.com/lesismal/nbio/nbhttp"
	nbws "github.com/lesismal/nbio/nbhttp/websocket"

	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

type socketEcho struct{}

func (socketEcho) OnOpen(*ws.Socket)                              {}
func (socketEcho) OnMessage(s *ws.Socket, kind ws.Kind, p []byte) { s.Send(kind, p) }
func (socketEcho) OnClose(*ws.Socket, error)                      {}

func serveSocket(o Options) error {
	return serveSpindle(o, &web.Server{Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws.Upgrade(w, r, socketEcho{}, ws.Options{})
	}))})
}

// serveConn runs a task for each connection.
func serveConn(o Options) error {
	return serveSpindle(o, &web.Server{Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := ws.Accept(w, r, ws.Options{})
		if err != nil {
			return
		}
		defer c.CloseNow()
		ctx := context.Background()
		for {
			kind, message, err := c.Read(ctx)
			if err != nil || c.Write(ctx, kind, message) != nil {
				return
			}
		}
	}))})
}

func serveGorilla(o Options) error {
	ln, err := net.Listen("tcp4", o.Addr)
	if err != nil {
		return err
	}
	o.Ready(ln.Addr())
	u := websocket.Upgrader{}
	return http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := u.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			kind, message, err := c.ReadMessage()
			if err != nil || c.WriteMessage(kind, message) != nil {
				return
			}
		}
	}))
}

// serveNbioWS runs one poller. It handles messages in the reading goroutine, as nbio's
// authors recommend for handlers that do not block.
func serveNbioWS(o Options) error {
	logging.SetLevel(logging.LevelError)
	u := nbws.NewUpgrader()
	u.OnMessage(func(c *nbws.Conn, kind nbws.MessageType, message []byte) { c.WriteMessage(kind, message) })
	engine := nbhttp.NewEngine(nbhttp.Config{
		Network:        "tcp4",
		Addrs:          []string{o.Addr},
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
	o.Ready(addr)
	select {}
}
