package ws_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// A net/http handler, and a client in a task.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := ws.Accept(w, r, ws.Options{})
		if err != nil {
			return // the client got a response
		}
		defer c.CloseNow()
		for {
			kind, message, err := c.Read(context.Background())
			if err != nil {
				return
			}
			c.Write(context.Background(), kind, []byte(strings.ToUpper(string(message))))
		}
	}))
	defer server.Close()

	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		c, err := ws.Dial(ctx, "ws"+strings.TrimPrefix(server.URL, "http"), ws.Options{})
		if err != nil {
			return err
		}
		if err := c.Write(ctx, ws.Text, []byte("hello")); err != nil {
			return err
		}
		kind, message, err := c.Read(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", kind, message)
		return c.Close(ws.NormalClosure, "")
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: text: HELLO
}

type shouter struct{}

func (shouter) OnOpen(s *ws.Socket)       { s.Send(ws.Text, []byte("hello")) }
func (shouter) OnClose(*ws.Socket, error) {}
func (shouter) OnMessage(s *ws.Socket, kind ws.Kind, message []byte) {
	s.Send(kind, bytes.ToUpper(message))
}

// A server of package web with WebSockets as callbacks, and a client, on one loop.
func ExampleUpgrade() {
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws.Upgrade(w, r, shouter{}, ws.Options{})
		})
		server, err := (&web.Server{Handler: web.Inline(handler)}).Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		c, err := ws.Dial(ctx, "ws://"+server.Addr().String()+"/", ws.Options{})
		if err != nil {
			return err
		}
		if err := c.Write(ctx, ws.Text, []byte("louder")); err != nil {
			return err
		}
		for range 2 {
			_, message, err := c.Read(ctx)
			if err != nil {
				return err
			}
			fmt.Printf("%s\n", message)
		}
		if err := c.Close(ws.NormalClosure, ""); err != nil {
			return err
		}
		return server.Shutdown(ctx)
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// hello
	// LOUDER
}
