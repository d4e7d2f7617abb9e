package transport_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"

	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestTLSCrowd is a process of clients like TestCrowd, with TLS.
func TestTLSCrowd(t *testing.T) {
	address := os.Getenv(crowdAddress)
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

// idleTLSBytes is what an idle secured connection may cost a server. Nearly all of
// it is what crypto/tls keeps.
const idleTLSBytes = 8 << 10

// TestTLSIdleConnections cost what crypto/tls needs, and no goroutine.
func TestTLSIdleConnections(t *testing.T) {
	low, high := 100, 600
	p := &tally{}
	var s *transport.Server
	l := steady(t, loop.Options{}, func(l *loop.Loop) {
		var err error
		if s, err = transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{TLS: tlstest.Identity().Server, Protocol: func() transport.Protocol { return p }}); err != nil {
			t.Fatal(err)
		}
	})
	c := startClients(t, "TestTLSCrowd", s.Addr().String())
	c.grow(t, low)
	before, goroutines := inUse(), runtime.NumGoroutine()
	c.grow(t, high)
	each := float64(inUse()-before) / float64(high-low)
	t.Logf("%.0f bytes for each idle connection", each)
	if each > idleTLSBytes && !underRace {
		t.Errorf("%.0f bytes for each idle connection", each)
	}
	if n := runtime.NumGoroutine() - goroutines; n > 10 {
		t.Errorf("%d goroutines for %d connections", n, high-low)
	}
	quiet(t, l)
	c.leave(t)
	until(t, l, func() bool { return s.Conns() == 0 })
}
