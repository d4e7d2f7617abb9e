package transport_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"

	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestTLSClientProcess is like TestClientProcess, with TLS.
func TestTLSClientProcess(t *testing.T) {
	address := os.Getenv(clientsAddress)
	if address == "" {
		return
	}
	var conns []*tls.Conn
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var want int
		fmt.Sscan(in.Text(), &want)
		for len(conns) < want {
			c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
			if err == nil {
				_, err = c.Write(make([]byte, 100))
			}
			if err == nil {
				_, err = io.ReadFull(c, make([]byte, 100))
			}
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		fmt.Println("done", len(conns))
	}
	os.Exit(0)
}

// idleTLSBytes is the most memory that an idle secured connection may take. Nearly all
// of it is the state of crypto/tls.
const idleTLSBytes = 8 << 10

// TestTLSIdleConnections: idle connections take the memory of crypto/tls, and no
// goroutine.
func TestTLSIdleConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: many connections")
	}
	low, high := 100, 600
	p := &connTally{}
	var s *transport.Server
	l := running(t, loop.Options{}, func(l *loop.Loop) {
		var err error
		if s, err = transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{TLS: tlstest.Identity().Server, Protocol: func() transport.Protocol { return p }}); err != nil {
			t.Fatal(err)
		}
	})
	c := startClients(t, "TestTLSClientProcess", s.Addr().String())
	c.grow(t, low)
	before, goroutines := heapInUse(), runtime.NumGoroutine()
	c.grow(t, high)
	each := float64(heapInUse()-before) / float64(high-low)
	t.Logf("%.0f bytes for each idle connection", each)
	if each > idleTLSBytes && !short.UnderRace {
		t.Errorf("%.0f bytes for each idle connection", each)
	}
	if n := runtime.NumGoroutine() - goroutines; n > 10 {
		t.Errorf("%d goroutines for %d connections", n, high-low)
	}
	wantIdle(t, l)
	c.leave(t)
	until.OnLoop(t, l, func() bool { return s.Conns() == 0 })
}
