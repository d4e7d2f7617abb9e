package transport_test

import (
	"errors"
	"net"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// optionSpy keeps the socket options that are set.
type optionSpy struct {
	kernel.Sockets
	set map[kernel.Option]int
}

func (s *optionSpy) SetOption(fd int, o kernel.Option, value int) error {
	s.set[o] = value
	return s.Sockets.SetOption(fd, o, value)
}

// TestEndpointBuffers: the sizes reach the socket of the endpoint, which fails with
// net.ErrClosed once it has none.
func TestEndpointBuffers(t *testing.T) {
	k, err := kernel.Open("auto")
	if err != nil {
		t.Fatal(err)
	}
	spy := &optionSpy{k.Sockets, map[kernel.Option]int{}}
	k.Sockets = spy
	l, err := loop.New(loop.Options{Kernel: k})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	e := endpoint(t, l, &listener{}, transport.DatagramOptions{Network: "udp", Local: "127.0.0.1:0"})
	if err := errors.Join(e.SetReadBuffer(100_000), e.SetWriteBuffer(50_000)); err != nil {
		t.Error(err)
	}
	if spy.set[kernel.RecvBuffer] != 100_000 || spy.set[kernel.SendBuffer] != 50_000 {
		t.Errorf("options %v", spy.set)
	}
	e.Abort()
	if err := e.SetReadBuffer(1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Abort: %v", err)
	}
}
