package web_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestExpectContinueIsAnsweredWhenTheBodyIsRead(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v", body, err)
	}) {
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			for range 2 { // on one connection
				io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
				line, err := br.ReadString('\n')
				if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
					t.Fatalf("got %q, %v", line, err)
				}
				br.ReadString('\n')
				io.WriteString(nc, "hello")
				if _, body := response(t, br, "POST"); body != "hello <nil>" {
					t.Errorf("got %q", body)
				}
			}
		})
	}
}

func TestExpectContinueOfAnUnreadBody(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403) }) {
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
			res, _ := response(t, br, "POST")
			if res.StatusCode != 403 || !res.Close {
				t.Errorf("got %d, close %v", res.StatusCode, res.Close)
			}
			if _, err := br.ReadByte(); err != io.EOF {
				t.Errorf("the connection stays open: %v", err)
			}
		})
	}
}

// rest returns what else is answered on a connection, up to its end.
func rest(t testing.TB, br *bufio.Reader) string {
	t.Helper()
	var all []string
	for {
		res, err := http.ReadResponse(br, nil)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return strings.Join(all, ", ")
		}
		if err != nil {
			t.Errorf("after %q: %v", all, err)
			return strings.Join(all, ", ")
		}
		body, _ := io.ReadAll(res.Body)
		all = append(all, fmt.Sprintf("%d %s", res.StatusCode, body))
	}
}

// TestNoContinueInsideAResponse checks that no 100 is sent when a handler reads the body
// after it has begun to answer.
func TestNoContinueInsideAResponse(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first")
		http.NewResponseController(w).Flush()
		io.Copy(w, r.Body)
	}) {
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
			res, err := http.ReadResponse(br, nil)
			if err != nil || res.StatusCode != 200 {
				t.Fatalf("got %v, %v", res, err)
			}
			io.ReadFull(res.Body, make([]byte, len("first")))
			io.WriteString(nc, "body")
			if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "body" {
				t.Errorf("got %q, %v", rest, err)
			}
		})
	}
}

// TestBodyReadAfterCloseAsksForNothing checks that no 100 is sent for a closed body.
func TestBodyReadAfterCloseAsksForNothing(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		r.Body.Close()
		n, err := r.Body.Read(make([]byte, 1))
		fmt.Fprint(w, n, err)
	}) {
		t.Run(name, func(t *testing.T) {
			nc, _ := dial(t, serve(t, s))
			io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
			all, err := io.ReadAll(nc)
			if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 200") || !strings.HasSuffix(string(all), fmt.Sprint(0, http.ErrBodyReadAfterClose)) {
				t.Errorf("got %q, %v", all, err)
			}
		})
	}
}

// TestExpectedBodyThatComesUnasked checks that a client that does not wait for the 100 keeps
// its connection.
func TestExpectedBodyThatComesUnasked(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }) {
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello")
			if res, body := response(t, br, "POST"); body != "hello" || res.Close {
				t.Errorf("got %q, close: %v", body, res.Close)
			}
		})
	}
}
