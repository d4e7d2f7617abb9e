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

// TestDeadlineAfterHijackIsRefused: it was set for the response, and would end the
// connection that the handler has taken.
func TestDeadlineAfterHijackIsRefused(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		nc, _, err := c.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		past := time.Now().Add(-time.Second)
		if err := c.SetWriteDeadline(past); err != http.ErrHijacked {
			t.Errorf("SetWriteDeadline: %v", err)
		}
		if err := c.SetReadDeadline(past); err != http.ErrHijacked {
			t.Errorf("SetReadDeadline: %v", err)
		}
		if _, err := io.WriteString(nc, "hello"); err != nil {
			t.Errorf("write to the connection: %v", err)
		}
	}) {
		t.Run(name, func(t *testing.T) {
			nc, _ := dial(t, serve(t, s))
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if got, err := io.ReadAll(nc); string(got) != "hello" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
