package ws_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/ws"
)

// A handler of net/http, and a client in a task.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := ws.Accept(w, r, ws.Options{})
		if err != nil {
			return // the client was told
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
