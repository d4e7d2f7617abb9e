package pyapp

import (
	"io"
	"net/http"
)

// tunnel passes bytes both ways after the worker has switched protocols, for a WebSocket. The
// worker does not wait for it when it ends, but closes it.
func (x *exchange) tunnel(res *http.Response) {
	client, buffered, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		fail(x.w, x.r)
		return
	}
	defer client.Close()
	x.release()
	head := []byte("HTTP/1.1 101 Switching Protocols\r\n")
	for name, values := range res.Header {
		for _, value := range values {
			head = appendField(head, name, value)
		}
	}
	if _, err := client.Write(append(head, "\r\n"...)); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if n := buffered.Reader.Buffered(); n > 0 {
			early, _ := buffered.Reader.Peek(n)
			if _, err := x.c.Write(early); err != nil {
				return
			}
		}
		_, _ = io.Copy(x.c.Conn, client)
		x.c.close()
	}()
	_, _ = io.Copy(client, x.c.in)
	_ = client.Close()
	<-done
}
