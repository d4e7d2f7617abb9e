package web_test

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
)

// TestUnreadBodyOfAPipelinedRequest checks that the rest of a body that an inline handler
// does not read is skipped, and the next request answered, when much of the body came with
// the request before.
func TestUnreadBodyOfAPipelinedRequest(t *testing.T) {
	for _, length := range []int{70_000, 150_000} {
		t.Run(strconv.Itoa(length), func(t *testing.T) { leaveUnread(t, length) })
	}
}

func leaveUnread(t *testing.T, length int) {
	l, sv := steps(t, &web.Server{Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			spindle.Sleep(r.Context(), time.Millisecond)
		}
	}))})
	fd := sockets(t, sv, 1)[0]
	send := func(s string) {
		if _, err := unix.Write(fd, []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	begin := "GET /slow HTTP/1.1\r\nHost: a\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + strconv.Itoa(length) + "\r\n\r\n"
	send(begin + strings.Repeat("x", 10_000))
	before := l.Stats().Events
	for l.Stats().Events < before+2 {
		if _, err := l.RunOnce(-1); err != nil {
			t.Fatal(err)
		}
	}
	rest := []byte(strings.Repeat("x", length-10_000) + "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	var got []byte
	buf := make([]byte, 4096)
	for end := time.Now().Add(5 * time.Second); bytes.Count(got, []byte("200 OK")) < 3; {
		if time.Now().After(end) {
			t.Fatalf("%d bytes were not taken; got %q", len(rest), got)
		}
		if n, err := unix.Write(fd, rest); err == nil {
			rest = rest[n:]
		}
		if _, err := l.RunOnce(0); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Read(fd, buf); err == nil {
			got = append(got, buf[:n]...)
		}
	}
}

// TestLoopClosedRightAfterARequest checks that Close reports nothing as lost after a request
// was passed to a worker.
func TestLoopClosedRightAfterARequest(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	begun, ended := make(chan bool), make(chan bool)
	sv, err := (&web.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(ended)
	})}).Listen(l, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fd := sockets(t, sv, 1)[0]
	unix.Write(fd, []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	for given := false; !given; {
		if _, err := l.RunOnce(0); err != nil {
			t.Fatal(err)
		}
		select {
		case <-begun:
			given = true
		default:
			given = web.Yields(sv, l)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}
