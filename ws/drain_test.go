package ws_test

import (
	"net/http"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// TestDrainClosesSockets: a server that drains says so to those who are connected, and
// ends when they have answered.
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
