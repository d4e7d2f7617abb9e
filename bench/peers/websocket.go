package peers

import (
	"context"
	"net"
	"net/http"

	"github.com/gorilla/websocket"

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
