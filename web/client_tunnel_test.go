package web_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
)

// TestTransportConnectSendsItsBodyAsItIs: a body of unknown length is the tunnel's other
// direction, without framing, as with http.Transport.
func TestTransportConnectSendsItsBodyAsItIs(t *testing.T) {
	heads := make(chan *http.Request, 1)
	base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
		req, err := http.ReadRequest(br)
		if err != nil {
			t.Error(err)
			return
		}
		heads <- req
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		io.Copy(c, br)
		c.Close()
	})
	tasks(t, func(ctx context.Context) {
		transport := &web.Transport{Context: ctx}
		if _, err := spindle.Blocking(ctx, func() (int, error) {
			r, w := io.Pipe()
			defer w.Close()
			req, err := http.NewRequest("CONNECT", base, r)
			if err != nil {
				return 0, err
			}
			res, err := transport.RoundTrip(req)
			if err != nil {
				return 0, err
			}
			defer res.Body.Close()
			if head := <-heads; head.ContentLength != 0 || len(head.TransferEncoding) != 0 {
				t.Errorf("framed: %v, %v", head.ContentLength, head.TransferEncoding)
			}
			for _, word := range []string{"hello", "there"} {
				io.WriteString(w, word)
				got := make([]byte, len(word))
				if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != word {
					t.Errorf("%q, %v", got, err)
				}
			}
			return 0, nil
		}); err != nil {
			t.Error(err)
		}
	})
}

// TestReverseProxyUpgradesThroughTransport: the 101 goes through as it is.
func TestReverseProxyUpgradesThroughTransport(t *testing.T) {
	base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
		hear(br)
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		io.Copy(c, br)
		c.Close()
	})
	to, err := neturl.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	tasks(t, func(ctx context.Context) {
		proxy := httputil.NewSingleHostReverseProxy(to)
		proxy.Transport = &web.Transport{Context: ctx}
		front := httptest.NewServer(proxy)
		defer front.Close()
		if _, err := spindle.Blocking(ctx, func() (int, error) {
			c, err := net.Dial("tcp", front.Listener.Addr().String())
			if err != nil {
				return 0, err
			}
			defer c.Close()
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			br := bufio.NewReader(c)
			res, err := http.ReadResponse(br, nil)
			if err != nil {
				return 0, err
			}
			if res.StatusCode != 101 || res.Close || res.Header.Get("Connection") != "Upgrade" {
				t.Errorf("%+v", res)
			}
			io.WriteString(c, "hello")
			got := make([]byte, 5)
			if _, err := io.ReadFull(br, got); err != nil || string(got) != "hello" {
				t.Errorf("%q, %v", got, err)
			}
			return 0, nil
		}); err != nil {
			t.Error(err)
		}
	})
}
