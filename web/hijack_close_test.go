package web_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
)

// TestHijackedCloseEndsWaits: Close ends a Write that waits, and a client that does not read
// cannot keep the connection.
func TestHijackedCloseEndsWaits(t *testing.T) {
	for _, panics := range []bool{false, true} {
		written := errors.New("still waiting")
		s := &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			nc, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
			}
			spindle.RootNursery(r.Context()).Go(func(context.Context) error {
				_, written = nc.Write(make([]byte, 16<<20))
				return nil
			})
			spindle.Sleep(r.Context(), time.Second)
			if panics {
				panic(http.ErrAbortHandler)
			}
			nc.Close()
		})}
		simulated(t, s, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", func(ctx context.Context, c *stream.Conn, br *bufio.Reader) error {
			if err := spindle.Sleep(ctx, 2*time.Second); err != nil {
				return err
			}
			if !errors.Is(written, net.ErrClosed) {
				t.Errorf("panics %v: Write: %v", panics, written)
			}
			if err := spindle.Sleep(ctx, 10*time.Minute); err != nil {
				return err
			}
			if n, err := io.Copy(io.Discard, br); n >= 16<<20 {
				t.Errorf("panics %v: the client got all %d bytes, %v", panics, n, err)
			}
			return nil
		})
	}
}

func TestDeadlinesCenturiesAhead(t *testing.T) {
	s := &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		spindle.Sleep(r.Context(), time.Second) // the clock does not show 0
		rc, far := http.NewResponseController(w), time.Now().AddDate(400, 0, 0)
		if err := errors.Join(rc.SetReadDeadline(far), rc.SetWriteDeadline(far)); err != nil {
			t.Error(err)
		}
		io.WriteString(w, "hello")
	})}
	simulated(t, s, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", func(_ context.Context, _ *stream.Conn, br *bufio.Reader) error {
		_, err := http.ReadResponse(br, nil)
		return err
	})
}

// TestHijackOfABrokenBody: what is handed over has no end that the client did not send.
func TestHijackOfABrokenBody(t *testing.T) {
	s := &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		spindle.Sleep(r.Context(), time.Second)
		nc, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		nc.SetReadDeadline(spindle.Now(r.Context()).Add(time.Second))
		if got, _ := io.ReadAll(rw); !strings.HasPrefix(string(got), "5\r\nhello\r\n") || strings.Contains(string(got), "0\r\n\r\n") {
			t.Errorf("got %q", got)
		}
	})}
	request := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\nGET /admin HTTP/1.1\r\n"
	simulated(t, s, request, func(_ context.Context, _ *stream.Conn, br *bufio.Reader) error {
		_, err := io.Copy(io.Discard, br)
		return err
	})
}

// TestBodyTimeoutBeginsAfterContinue: a client that waits for a 100 is not late.
func TestBodyTimeoutBeginsAfterContinue(t *testing.T) {
	s := &web.Server{BodyTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		spindle.Sleep(r.Context(), time.Hour)
		if body, err := io.ReadAll(r.Body); string(body) != "hello" || err != nil {
			t.Errorf("%q, %v", body, err)
		}
	})}
	request := "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
	simulated(t, s, request, func(ctx context.Context, c *stream.Conn, br *bufio.Reader) error {
		if line, err := br.ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
			t.Errorf("got %q, %v", line, err)
		}
		if err := spindle.Sleep(ctx, 59*time.Second); err != nil {
			return err
		}
		if _, err := io.WriteString(c, "hello"); err != nil {
			return err
		}
		br.ReadString('\n') // the empty line behind the 100
		res, err := http.ReadResponse(br, nil)
		if err == nil && res.StatusCode != http.StatusOK {
			t.Errorf("status %d", res.StatusCode)
		}
		return err
	})
}
