package broker_test

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/relay/nats/broker"
)

// A client that connects from a port that a killed server will listen on again would keep it
// from doing so.
func TestKilledServerKeepsItsPort(t *testing.T) {
	b, err := broker.Start(broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.Kill(0)
	address := netip.MustParseAddrPort(strings.TrimPrefix(b.URL(), "nats://"))
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(socket)
	err = syscall.Bind(socket, &syscall.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().As4()})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a socket takes the port of a killed server: %v", err)
	}
	if err := b.Restart(0); err != nil {
		t.Error(err)
	}
}
