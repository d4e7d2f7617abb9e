package ws_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// TestDrainClosesSockets checks that a draining server sends a Close to its clients
// and ends when they have answered.
func TestDrainClosesSockets(t *testing.T) {
	var sv *web.Service
	steady(t, func(l *loop.Loop) {
		var err error
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { ws.Upgrade(w, r, plainEcho{}, ws.Options{}) })
		if sv, err = (&web.Server{Handler: h}).Listen(l, "tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { shut(sv) })
	c, _, err := websocket.DefaultDialer.Dial("ws://"+sv.Addr().String()+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ended := make(chan bool)
	sv.Drain(func() { close(ended) })
	if _, _, err := c.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
		t.Errorf("got %v", err)
	}
	c.Close()
	<-ended
}

// TestDrainClosesAcceptedConns covers handlers that block in Read and handlers that
// do not read.
func TestDrainClosesAcceptedConns(t *testing.T) {
	got := make(chan error, 1)
	reads := func(w http.ResponseWriter, r *http.Request) {
		c, err := ws.Accept(w, r, ws.Options{})
		if err != nil {
			t.Error(err)
			return
		}
		_, _, err = c.Read(context.Background())
		got <- err
	}
	leaves := func(w http.ResponseWriter, r *http.Request) {
		if _, err := ws.Accept(w, r, ws.Options{}); err != nil {
			t.Error(err)
		}
		got <- &ws.CloseError{Code: ws.GoingAway}
	}
	for name, h := range map[string]http.Handler{
		"goroutine": http.HandlerFunc(reads),
		"inline":    web.Inline(http.HandlerFunc(reads)),
		"returned":  http.HandlerFunc(leaves),
	} {
		t.Run(name, func(t *testing.T) {
			var sv *web.Service
			steady(t, func(l *loop.Loop) {
				var err error
				if sv, err = (&web.Server{Handler: h}).Listen(l, "tcp", "127.0.0.1:0"); err != nil {
					t.Fatal(err)
				}
			})
			t.Cleanup(func() { shut(sv) })
			c, _, err := websocket.DefaultDialer.Dial("ws://"+sv.Addr().String()+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetReadDeadline(time.Now().Add(patience))
			ended := make(chan bool)
			sv.Drain(func() { close(ended) })
			if _, _, err := c.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
				t.Errorf("got %v", err)
			}
			c.Close()
			if err := <-got; ws.CodeOf(err) != ws.GoingAway {
				t.Errorf("the handler's Read: %v", err)
			}
			<-ended
		})
	}
}
