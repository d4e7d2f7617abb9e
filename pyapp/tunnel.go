package pyapp

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// tunnel passes bytes both ways after the worker has switched protocols, for a WebSocket. A
// worker that ends does not wait for the tunnel, but closes it.
func (x *exchange) tunnel(res *http.Response) {
	head := x.tunnelHead(res)
	client, buffered, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		if head == nil { // the response has begun
			panic(http.ErrAbortHandler)
		}
		fail(x.w, x.r)
		return
	}
	defer client.Close()
	x.release()
	if _, err := client.Write(head); err != nil {
		return
	}
	to := &framesTo{w: x.c.Conn}
	ended := make(chan struct{})
	defer close(ended)
	if server, ok := client.(interface{ OnShutdown(func()) }); ok && isWebSocket(x.r) {
		server.OnShutdown(func() {
			defer client.Close()
			to.goAway()
			ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
			defer cancel()
			select { // the worker answers, and ends the tunnel
			case <-ended:
			case <-ctx.Done():
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if n := buffered.Reader.Buffered(); n > 0 {
			early, _ := buffered.Reader.Peek(n)
			if _, err := to.Write(early); err != nil {
				return
			}
		}
		_, _ = io.Copy(to, client)
		x.c.close()
	}()
	_, _ = io.Copy(client, x.c.in)
	_ = client.Close()
	<-done
}

// tunnelHead returns the response to write to the connection. On a stream the server writes it.
func (x *exchange) tunnelHead(res *http.Response) []byte {
	if x.r.ProtoMajor == 2 {
		for name, values := range res.Header {
			if !hopByHop[name] && name != "Sec-Websocket-Accept" {
				x.w.Header()[name] = values
			}
		}
		x.w.WriteHeader(http.StatusOK)
		return nil
	}
	head := []byte("HTTP/1.1 101 Switching Protocols\r\n")
	for name, values := range res.Header {
		for _, value := range values {
			head = appendField(head, name, value)
		}
	}
	return append(head, "\r\n"...)
}

// closeTimeout is how long a WebSocket may take to close when the server shuts down.
const closeTimeout = 5 * time.Second

func isWebSocket(r *http.Request) bool { return strings.EqualFold(upgradeOf(r), "websocket") }
