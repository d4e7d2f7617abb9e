package web_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/rpc"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/web"
)

// TestHijackBeforeTheBodyWasRead checks that the reader has what was received of the body and
// that the rest follows, wherever the request is cut, as with net/http.
func TestHijackBeforeTheBodyWasRead(t *testing.T) {
	taken := make(chan bool, 1)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		first := make([]byte, len(r.Header.Get("Read")))
		io.ReadFull(r.Body, first)
		nc, rw, err := w.(http.Hijacker).Hijack()
		taken <- true
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		if n, err := r.Body.Read(make([]byte, 1)); err == nil {
			t.Errorf("the body goes on: %d", n)
		}
		all, err := io.ReadAll(rw)
		if err != nil {
			t.Error(err)
		}
		nc.Write(append(first, all...))
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			for _, c := range []struct{ fields, stream string }{
				{"Content-Length: 5\r\n", "helloearly"},
				{"Content-Length: 5\r\nRead: 2\r\n", "helloearly"},
				{"Content-Length: 5\r\nExpect: 100-continue\r\n", "helloearly"},
				{"Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n010;x=y\r\n, and some more \r\n0\r\nX-T: 1\r\n\r\nearly"},
				{"Transfer-Encoding: chunked\r\n", "0\r\n\r\nearly"},
			} {
				for cut := range len(c.stream) + 1 {
					nc, _ := dial(t, sv)
					io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\n"+c.fields+"\r\n"+c.stream[:cut])
					if strings.Contains(c.fields, "Read") && cut == 0 {
						nc.Close()
						<-taken
						continue
					}
					<-taken
					io.WriteString(nc, c.stream[cut:])
					nc.(*net.TCPConn).CloseWrite()
					got, err := io.ReadAll(nc)
					want := c.stream
					if strings.Contains(c.fields, "chunked") {
						got, want = unchunked(t, got), string(unchunked(t, []byte(want)))
					}
					if string(got) != want || err != nil {
						t.Errorf("%q, cut at %d: got %q, %v", c.stream, cut, got, err)
					}
					nc.Close()
				}
			}
		})
	}
}

// unchunked returns the content of a chunked body, and what follows it.
func unchunked(t *testing.T, stream []byte) []byte {
	t.Helper()
	br := bufio.NewReader(bytes.NewReader(stream))
	content, err := io.ReadAll(httputil.NewChunkedReader(br))
	rest, _ := io.ReadAll(br)
	if err != nil {
		t.Errorf("%q cannot be read: %v", stream, err)
	}
	return append(append(content, '|'), rest...)
}

// TestPanicAfterHijackClosesTheConnection checks that the connection is closed with its
// handler.
func TestPanicAfterHijackClosesTheConnection(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		nc, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(nc, "mine")
		panic("oh no")
	}) {
		s.ErrorLog = quiet
		t.Run(name, func(t *testing.T) {
			nc, _ := dial(t, serve(t, s))
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if all, err := io.ReadAll(nc); string(all) != "mine" || err != nil {
				t.Errorf("got %q, %v", all, err)
			}
		})
	}
}

// TestPanicAfterUpgradeLeavesTheProtocol checks that the connection stays with the protocol.
func TestPanicAfterUpgradeLeavesTheProtocol(t *testing.T) {
	lost := make(chan error, 1)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		if err := web.Upgrade(w, r, nil, shout{lost}); err != nil {
			t.Error(err)
		}
		panic("oh no")
	}) {
		s.ErrorLog = quiet
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\nearly")
			http.ReadResponse(br, nil)
			got := make([]byte, len("made early"))
			if _, err := io.ReadFull(br, got); err != nil || string(got) != "made early" {
				t.Errorf("got %q, %v", got, err)
			}
			nc.Close()
			<-lost
		})
	}
}

// double is a service of net/rpc.
type double struct{}

func (double) Of(n int, to *int) error { *to = 2 * n; return nil }

// TestNetRPCOnAHijackedConnection serves net/rpc on a hijacked connection. The server
// refuses the CONNECT of rpc.DialHTTP.
func TestNetRPCOnAHijackedConnection(t *testing.T) {
	server := rpc.NewServer()
	if err := server.RegisterName("Double", double{}); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(rpc.DefaultRPCPath, server)
	mux.HandleFunc("/rpc", func(w http.ResponseWriter, r *http.Request) {
		if nc, _, err := w.(http.Hijacker).Hijack(); err == nil {
			io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: net-rpc\r\n\r\n")
			server.ServeConn(nc)
		}
	})
	sv := serve(t, &web.Server{Handler: mux})
	if _, err := rpc.DialHTTP("tcp", sv.Addr().String()); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("DialHTTP: %v", err)
	}
	nc, br := dial(t, sv)
	io.WriteString(nc, "GET /rpc HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: net-rpc\r\n\r\n")
	if res, err := http.ReadResponse(br, nil); err != nil || res.StatusCode != 101 {
		t.Fatal(res, err)
	}
	c := rpc.NewClient(nc)
	defer c.Close()
	var got int
	if err := c.Call("Double.Of", 21, &got); err != nil || got != 42 {
		t.Errorf("got %d, %v", got, err)
	}
}
