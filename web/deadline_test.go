package web_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	"time"
)

// TestWriteDeadlineFailsAsADeadline: a write that waits when the deadline passes, and
// every one after it, fails with os.ErrDeadlineExceeded.
func TestWriteDeadlineFailsAsADeadline(t *testing.T) {
	ends := make(chan error, 2)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if err := c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/waits" {
			untilEnd(r.Context())
			ends <- c.Flush()
		} else {
			for {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					ends <- err
					break
				}
			}
		}
		_, err := io.WriteString(w, "more")
		ends <- err
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			for _, path := range []string{"/writes", "/waits"} {
				nc, _ := dial(t, sv)
				io.WriteString(nc, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
				for range 2 {
					if err := <-ends; !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("%s: got %v", path, err)
					}
				}
				nc.Close()
			}
		})
	}
}
