package web_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/transport"
	"github.com/spindleloop/spindle/web"
)

// shout is a protocol that announces itself and returns what it receives.
type shout struct{ lost chan error }

func (p shout) ConnectionMade(c *transport.Conn)            { c.Write([]byte("made ")) }
func (p shout) DataReceived(c *transport.Conn, data []byte) { c.Write(data) }
func (p shout) ConnectionLost(_ *transport.Conn, err error) { p.lost <- err }

func TestUpgradeWithEarlyData(t *testing.T) {
	lost := make(chan error, 1)
	returned := make(chan bool, 1)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		defer func() { returned <- true }()
		if err := web.Upgrade(w, r, http.Header{"X-Y": {"z"}}, shout{lost}); err != nil {
			t.Error(err)
		}
		if err := web.Upgrade(w, r, nil, shout{lost}); !errors.Is(err, http.ErrHijacked) {
			t.Errorf("a second upgrade: %v", err)
		}
		if _, err := io.WriteString(w, "late"); err != http.ErrHijacked {
			t.Errorf("a write after it: %v", err)
		}
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			nc, err := net.Dial("tcp", sv.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\nearly ")
			br := bufio.NewReader(nc)
			res, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != 101 || res.Header.Get("Upgrade") != "shout" || res.Header.Get("Connection") != "Upgrade" || res.Header.Get("X-Y") != "z" {
				t.Errorf("got %d %v", res.StatusCode, res.Header)
			}
			io.WriteString(nc, "later")
			got := make([]byte, len("made early later"))
			if _, err := io.ReadFull(br, got); err != nil || string(got) != "made early later" {
				t.Errorf("got %q, %v", got, err)
			}
			<-returned
			nc.Close()
			if err := <-lost; err != nil {
				t.Errorf("lost with %v", err)
			}
		})
	}
}

func TestUpgradeOfAForeignWriterIsUnsupported(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	if err := web.Upgrade(httptest.NewRecorder(), r, nil, shout{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}

// clumsy is a protocol that panics at the first bytes.
type clumsy struct{ shout }

func (clumsy) DataReceived(*transport.Conn, []byte) { panic("oops") }

// TestUpgradedProtocolThatPanics checks that only its own connection is lost.
func TestUpgradedProtocolThatPanics(t *testing.T) {
	for text, protocol := range map[string]func(shout) transport.Protocol{
		"oops":                                func(s shout) transport.Protocol { return clumsy{s} },
		"web: Buffer returned an empty slice": func(s shout) transport.Protocol { return noSpace{s} },
	} {
		testUpgradedProtocolThatPanics(t, text, protocol)
	}
}

// noSpace is a protocol without space for data.
type noSpace struct{ shout }

func (noSpace) Buffer(*transport.Conn) []byte      { return nil }
func (noSpace) BufferUpdated(*transport.Conn, int) {}

func testUpgradedProtocolThatPanics(t *testing.T, text string, protocol func(shout) transport.Protocol) {
	lost := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var log bytes.Buffer
	at, ended := make(chan net.Addr, 1), make(chan error, 1)
	s := &web.Server{
		Loops: 1, ErrorLog: slog.New(slog.NewTextHandler(&log, nil)), OnListen: func(a net.Addr) { at <- a },
		Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := web.Upgrade(w, r, nil, protocol(shout{lost})); err != nil {
				t.Error(err)
			}
		})),
		Lean: web.LeanRoutes(map[string]func(*web.LeanCtx){"/other": func(c *web.LeanCtx) { c.WriteString("fine") }}),
	}
	go func() { ended <- s.ListenAndServe(ctx, "127.0.0.1:0") }()
	addr := (<-at).String()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\nbytes")
	io.Copy(io.Discard, nc) // to its end
	<-lost
	res, err := http.Get("http://" + addr + "/other")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "web: callback panicked: "+text) {
		t.Errorf("the log says %q", log.String())
	}
}

// TestUpgradeOfALostConnection checks that ConnectionMade and ConnectionLost are called for
// every protocol if Upgrade has not failed.
func TestUpgradeOfALostConnection(t *testing.T) {
	lost := make(chan error, 1)
	s := serve(t, &web.Server{Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		web.Abort(w) // the loop has not told the server yet
		if err := web.Upgrade(w, r, nil, shout{lost}); err != nil {
			t.Error(err)
		}
	}))})
	nc, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\n")
	if err := <-lost; !errors.Is(err, web.ErrClientGone) {
		t.Errorf("lost with %v", err)
	}
}

// stumbles is a protocol that panics in ConnectionMade.
type stumbles struct{ shout }

func (stumbles) ConnectionMade(*transport.Conn) { panic("oops") }

// TestUpgradeOfALostConnectionThatPanics checks that ConnectionLost is called nevertheless.
func TestUpgradeOfALostConnectionThatPanics(t *testing.T) {
	for _, abort := range []bool{false, true} {
		lost := make(chan error, 1)
		ctx, cancel := context.WithCancel(context.Background())
		at, ended := make(chan net.Addr, 1), make(chan error, 1)
		s := &web.Server{
			Loops: 1, ErrorLog: slog.New(slog.DiscardHandler), OnListen: func(a net.Addr) { at <- a },
			Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if abort {
					web.Abort(w)
				}
				if err := web.Upgrade(w, r, nil, stumbles{shout{lost}}); err != nil {
					t.Error(err)
				}
			})),
		}
		go func() { ended <- s.ListenAndServe(ctx, "127.0.0.1:0") }()
		nc, err := net.Dial("tcp", (<-at).String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\n")
		<-lost
		nc.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
