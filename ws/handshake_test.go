package ws_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/ws"
)

// TestRefusedRequests covers both kinds of server and checks the status.
func TestRefusedRequests(t *testing.T) {
	o := ws.Options{}
	accepting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := ws.Accept(w, r, o); err == nil {
			c.CloseNow()
		} else if _, ok := errors.AsType[*ws.HandshakeError](err); !ok {
			t.Errorf("the server failed with %v", err)
		}
	}))
	defer accepting.Close()
	upgrading := serveSockets(t, o, func() ws.Handler { return &socketEcho{t: t, ended: make(chan error, 1)} })
	good := request("host", "/chat")
	without := func(field string) string {
		before, after, _ := strings.Cut(good, field+": ")
		_, after, _ = strings.Cut(after, "\r\n")
		return before + after
	}
	with := func(field, value string) string {
		return strings.TrimSuffix(without(field), "\r\n") + field + ": " + value + "\r\n\r\n"
	}
	for _, c := range []struct {
		name    string
		request string
		status  int
	}{
		{"as it should be", good, 101},
		{"tokens among others, in any case", with("Connection", "keep-alive, UPGRADE"), 101},
		{"POST", strings.Replace(good, "GET", "POST", 1), 405},
		{"HTTP/1.0", strings.Replace(good, "HTTP/1.1", "HTTP/1.0", 1), 400},
		{"no Upgrade", without("Upgrade"), 426},
		{"another Upgrade", with("Upgrade", "h2c"), 426},
		{"no Connection", without("Connection"), 426},
		{"Connection without upgrade", with("Connection", "keep-alive"), 426},
		{"no version", without("Sec-WebSocket-Version"), 426},
		{"an old version", with("Sec-WebSocket-Version", "8"), 426},
		{"two versions", strings.Replace(good, "Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Version: 13", 1), 426},
		{"no key", without("Sec-WebSocket-Key"), 400},
		{"a short key", with("Sec-WebSocket-Key", "c2hvcnQ="), 400},
		{"a key that is not base64", with("Sec-WebSocket-Key", "!!!!!!!!!!!!!!!!!!!!!!=="), 400},
		{"two keys", strings.Replace(good, "Sec-WebSocket-Version", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version", 1), 400},
		{"a page of the same host", request("host", "/", "Origin: http://host"), 101},
		{"a page of the same host, in capitals", request("host:80", "/", "Origin: https://HOST:80"), 101},
		{"a page of another host", request("host", "/", "Origin: http://evil.example"), 403},
		{"a page of another port", request("host:80", "/", "Origin: http://host:81"), 403},
		{"a page of no host", request("host", "/", "Origin: null"), 403},
		{"two origins", request("host", "/", "Origin: http://host", "Origin: http://host"), 403},
		{"malformed extensions", request("host", "/", "Sec-WebSocket-Extensions: a;;b"), 400},
		{"malformed subprotocols", request("host", "/", "Sec-WebSocket-Protocol: a b"), 400},
		{"a body", request("host", "/", "Content-Length: 1") + "x", 400},
	} {
		for form, address := range map[string]string{"Accept": accepting.Listener.Addr().String(), "Upgrade": upgrading} {
			t.Run(c.name+"/"+form, func(t *testing.T) {
				nc, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				p := newPeer(t, nc, true)
				res := p.handshake(c.request)
				if res.StatusCode != c.status {
					t.Errorf("status %d, want %d", res.StatusCode, c.status)
				}
				if v := res.Header.Get("Sec-WebSocket-Version"); res.StatusCode == 426 && v != "13" {
					t.Errorf("the response has version %q", v)
				}
				if a := res.Header.Get("Sec-WebSocket-Accept"); res.StatusCode == 101 && a != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
					t.Errorf("accepted with %q", a) // the RFC's own example
				}
			})
		}
	}
}

// TestCheckOriginAndSubprotocols covers a server's options.
func TestCheckOriginAndSubprotocols(t *testing.T) {
	o := ws.Options{
		CheckOrigin:  func(r *http.Request) bool { return r.Header.Get("Origin") == "http://friend.example" },
		Subprotocols: []string{"v2", "v1"},
		Header:       http.Header{"X-Served-By": {"us"}},
	}
	chosen := make(chan string, 1)
	address := serveSockets(t, o, func() ws.Handler {
		return &socketEcho{t: t, ended: make(chan error, 1), onOpen: func(s *ws.Socket) { chosen <- s.Subprotocol() }}
	})
	for _, c := range []struct {
		fields []string
		status int
		chosen string
	}{
		{[]string{"Origin: http://friend.example"}, 101, ""},
		{[]string{"Origin: http://friend.example", "Sec-WebSocket-Protocol: v1, v2"}, 101, "v2"},
		{[]string{"Origin: http://friend.example", "Sec-WebSocket-Protocol: v0", "Sec-WebSocket-Protocol: v1"}, 101, "v1"},
		{[]string{"Origin: http://friend.example", "Sec-WebSocket-Protocol: v3"}, 101, ""},
		{[]string{"Origin: http://" + address}, 403, ""},
		{nil, 403, ""},
	} {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		p := newPeer(t, nc, true)
		res := p.handshake(request(address, "/", c.fields...))
		if res.StatusCode != c.status || res.Header.Get("Sec-WebSocket-Protocol") != c.chosen {
			t.Errorf("%q: %d, %v", c.fields, res.StatusCode, res.Header)
		}
		if c.status == 101 {
			if got := <-chosen; got != c.chosen || res.Header.Get("X-Served-By") != "us" {
				t.Errorf("%q: %q, %v", c.fields, got, res.Header)
			}
		}
	}
}

// TestUpgradeOnOtherServers checks that a server other than web's gets an error, and
// its client, too.
func TestUpgradeOnOtherServers(t *testing.T) {
	failed := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		failed <- ws.Upgrade(w, r, &socketEcho{t: t}, ws.Options{})
	}))
	defer s.Close()
	nc, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	res := newPeer(t, nc, true).handshake(request("host", "/"))
	if err := <-failed; !errors.Is(err, errors.ErrUnsupported) || res.StatusCode != 500 {
		t.Errorf("%v, status %d", err, res.StatusCode)
	}
}

// dialBoth connects with both kinds of client. Each must fail.
func dialBoth(t *testing.T, url string, o ws.Options, test func(t *testing.T, err error), serve func(t *testing.T)) {
	t.Helper()
	t.Run("Dial", func(t *testing.T) {
		failed := make(chan error, 1)
		inTask(t, func(ctx context.Context) error {
			_, err := ws.Dial(ctx, url, o)
			failed <- err
			return nil
		})
		serve(t)
		test(t, <-failed)
	})
	t.Run("Connect", func(t *testing.T) {
		failed := make(chan error, 1)
		steady(t, func(l *loop.Loop) {
			o.OnError = func(err error) { failed <- err }
			ws.Connect(context.Background(), l, url, &socketEcho{t: t, ended: failed}, o)
		})
		serve(t)
		test(t, <-failed)
	})
}

// TestRefusedResponses checks that a client accepts only what it has offered.
func TestRefusedResponses(t *testing.T) {
	const head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ACCEPT\r\n"
	for _, c := range []struct {
		name   string
		answer string
		reason string
	}{
		{"another status", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "does not switch"},
		{"a redirection", "HTTP/1.1 302 Found\r\nLocation: ws://elsewhere/\r\nContent-Length: 0\r\n\r\n", "does not switch"},
		{"no Upgrade", strings.Replace(head, "Upgrade: websocket\r\n", "", 1) + "\r\n", "switches to something else"},
		{"no Connection", strings.Replace(head, "Connection: Upgrade\r\n", "", 1) + "\r\n", "switches to something else"},
		{"another protocol", strings.Replace(head, "websocket", "h2c", 1) + "\r\n", "switches to something else"},
		{"no proof", strings.Replace(head, "Sec-WebSocket-Accept: ACCEPT\r\n", "", 1) + "\r\n", "Sec-WebSocket-Accept"},
		{"a wrong proof", strings.Replace(head, "ACCEPT", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", 1) + "\r\n", "Sec-WebSocket-Accept"},
		{"a subprotocol that was not offered", head + "Sec-WebSocket-Protocol: other\r\n\r\n", "subprotocol"},
		{"two subprotocols", head + "Sec-WebSocket-Protocol: mine\r\nSec-WebSocket-Protocol: mine\r\n\r\n", "subprotocol"},
		{"an unknown extension", head + "Sec-WebSocket-Extensions: x-webkit\r\n\r\n", "not offered"},
		{"two extensions", head + "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover, permessage-deflate; server_no_context_takeover\r\n\r\n", "not offered"},
		{"a context on the server", head + "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n", "parameters"},
		{"a window for the client", head + "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_max_window_bits=9\r\n\r\n", "parameters"},
		{"a parameter twice", head + "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; server_no_context_takeover\r\n\r\n", "parameters"},
		{"a window of 7", head + "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; server_max_window_bits=7\r\n\r\n", "parameters"},
		{"no HTTP", "SSH-2.0-OpenSSH\r\n", "status line"},
		{"the end", "HTTP/1.1 101", "ended before"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ln := listen(t)
			dialBoth(t, "ws://"+ln.Addr().String()+"/", ws.Options{Subprotocols: []string{"mine"}, CompressFrom: 1}, func(t *testing.T, err error) {
				if err == nil || !strings.Contains(err.Error(), c.reason) {
					t.Errorf("%v, want %q", err, c.reason)
				}
			}, func(t *testing.T) {
				nc, err := ln.Accept()
				if err != nil {
					t.Fatal(err)
				}
				p := newPeer(t, nc, false)
				r, err := http.ReadRequest(p.br)
				if err != nil {
					t.Fatal(err)
				}
				p.send([]byte(strings.Replace(c.answer, "ACCEPT", accept(r.Header.Get("Sec-WebSocket-Key")), 1)))
				p.endWriting()
			})
		})
	}
}

// TestURLWithAZone checks that an address with a zone is dialed.
func TestURLWithAZone(t *testing.T) {
	dialBoth(t, "ws://[::1%25none]:1/", ws.Options{}, func(t *testing.T, err error) {
		if e, ok := errors.AsType[*net.OpError](err); !ok || e.Op != "dial" {
			t.Errorf("%v", err)
		}
	}, func(*testing.T) {})
}

// TestURLs checks that other URLs fail before anything is sent.
func TestURLs(t *testing.T) {
	for _, address := range []string{"http://host/", "ws://", "ws:///path", "ws://host/#fragment", "ws://host/#", "ws://me:secret@host/", "://", "host:80", "ws://ho st/"} {
		dialBoth(t, address, ws.Options{}, func(t *testing.T, err error) {
			if _, ok := errors.AsType[*url.Error](err); !ok || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: %v", address, err)
			}
		}, func(*testing.T) {})
	}
}
