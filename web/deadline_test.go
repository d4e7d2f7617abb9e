package web_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
)

func TestDeadlinesOfTheResponseController(t *testing.T) {
	t.Parallel()
	ends := make(chan error, 1)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if err := rc.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/write" {
			if err := rc.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
				t.Error(err)
			}
			var err error
			for chunk := make([]byte, 1<<20); err == nil; {
				_, err = w.Write(chunk)
			}
			ends <- untilEnd(r.Context())
			return
		}
		if err := rc.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Error(err)
		}
		_, err := io.ReadAll(r.Body)
		ends <- err
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			nc, br := dial(t, sv)
			io.WriteString(nc, "POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
			if err := <-ends; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read: %v", err)
			}
			response(t, br, "POST")
			nc, _ = dial(t, sv)
			io.WriteString(nc, "GET /write HTTP/1.1\r\nHost: a\r\n\r\n")
			if err := <-ends; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("write: %v", err)
			}
		})
	}
}

// TestWriteDeadlineFailsAsADeadline checks that a write that waits when the deadline passes,
// and every later one, fails with os.ErrDeadlineExceeded.
func TestWriteDeadlineFailsAsADeadline(t *testing.T) {
	t.Parallel()
	ends := make(chan error, 2)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if err := c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/waits" {
			pause(r.Context(), 30*time.Millisecond)
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

// TestDeadlinesThatPassedCanBeMoved does what net/http allows: a deadline counts only for a
// Read or a write. A deadline that was missed stays missed.
func TestDeadlinesThatPassedCanBeMoved(t *testing.T) {
	past, later := time.Unix(1, 0), time.Now().Add(time.Hour)
	h := func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		set := func(which func(time.Time) error, at time.Time) {
			if err := which(at); err != nil {
				t.Errorf("%s: %v", r.URL.Path, err)
			}
		}
		switch r.URL.Path {
		case "/write":
			set(c.SetWriteDeadline, past)
			set(c.SetWriteDeadline, later)
			io.WriteString(w, "moved")
		case "/between":
			io.WriteString(w, "mo")
			if err := c.Flush(); err != nil {
				t.Error(err)
			}
			set(c.SetWriteDeadline, time.Now().Add(10*time.Millisecond)) // nothing is unsent
			pause(r.Context(), 20*time.Millisecond)
			if err := r.Context().Err(); err != nil {
				t.Errorf("the context ended: %v", err)
			}
			set(c.SetWriteDeadline, later)
			io.WriteString(w, "ved")
		case "/read":
			set(c.SetReadDeadline, past)
			set(c.SetReadDeadline, later)
			io.Copy(w, r.Body)
		case "/missed":
			io.WriteString(w, "one")
			if err := c.Flush(); err != nil {
				t.Error(err)
			}
			set(c.SetWriteDeadline, past)
			io.WriteString(w, "two")
			if c.Flush() == nil {
				t.Error("no error after the deadline")
			}
			if r.Context().Err() == nil {
				t.Error("the context has not ended after a missed deadline")
			}
			set(c.SetWriteDeadline, later)
			io.WriteString(w, "three")
			if c.Flush() == nil {
				t.Error("no error after a missed deadline")
			}
		case "/unsent":
			io.WriteString(w, "kept back")
			set(c.SetWriteDeadline, past)
		}
	}
	theirs := httptest.NewServer(http.HandlerFunc(h))
	defer theirs.Close()
	addresses := map[string]string{"net/http": strings.TrimPrefix(theirs.URL, "http://")}
	for name, s := range kinds(h) {
		addresses[name] = serve(t, s).Addr().String()
	}
	for name, address := range addresses {
		for path, want := range map[string]string{"/write": "moved", "/between": "moved", "/read": "moved", "/missed": "one, unexpected EOF", "/unsent": "EOF"} {
			res, err := http.Post("http://"+address+path, "text/plain", strings.NewReader("moved"))
			got := ""
			if err == nil {
				var body []byte
				body, err = io.ReadAll(res.Body)
				res.Body.Close()
				got = string(body)
			}
			switch {
			case errors.Is(err, io.ErrUnexpectedEOF):
				got += ", unexpected EOF"
			case errors.Is(err, io.EOF):
				got += "EOF"
			case err != nil:
				got += err.Error()
			}
			if got != want {
				t.Errorf("%s %s: got %q, want %q", name, path, got, want)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// pause waits, as a task or a goroutine does.
func pause(ctx context.Context, d time.Duration) {
	if spindle.Current(ctx) != nil {
		spindle.Sleep(ctx, d)
		return
	}
	ended, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	<-ended.Done()
}

// TestDeadlineAfterHijackIsRefused checks that a response's deadline does not end a hijacked
// connection, and that setting one fails.
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
