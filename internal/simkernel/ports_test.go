package simkernel_test

import (
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
)

func TestSharedAddresses(t *testing.T) {
	b := newBench(t)
	at := addr(b.near.Host(), 99)
	bind := func(o kernel.Option, listen bool) error {
		fd := b.socket(b.near, kernel.IPv4, kernel.Stream)
		if o != 0 {
			b.ok(b.near.SetOption(fd, o, 1))
		}
		if err := b.near.Bind(fd, at); err != nil {
			return err
		}
		if listen {
			return b.near.Listen(fd, 1)
		}
		return nil
	}
	b.ok(bind(kernel.ReuseAddr, false))
	b.ok(bind(kernel.ReuseAddr, true)) // no other socket listens
	b.want(bind(kernel.ReuseAddr, false), syscall.EADDRINUSE)
	b.want(bind(kernel.ReusePort, false), syscall.EADDRINUSE) // the other sockets do not have the option
	b.want(bind(0, false), syscall.EADDRINUSE)
	at = kernel.Addr{AddrPort: loopbackPort(99)}
	b.ok(bind(0, true)) // another address
	b.want(bind(0, true), syscall.EADDRINUSE)
}

func TestDescriptorsAreReusedLowestFirst(t *testing.T) {
	b := newBench(t)
	var fds []int
	for range 20 {
		fds = append(fds, b.socket(b.near, kernel.IPv4, kernel.Stream))
	}
	for i := range 20 {
		if fds[i] != 3+i {
			t.Fatalf("descriptors %v", fds)
		}
	}
	for _, i := range []int{13, 4, 9, 17, 2} {
		b.ok(b.near.CloseFD(fds[i]))
	}
	for _, i := range []int{2, 4, 9, 13, 17, 20} {
		if fd := b.socket(b.near, kernel.IPv4, kernel.Stream); fd != 3+i {
			t.Errorf("descriptor %d, want %d", fd, 3+i)
		}
	}
	b.near.SetFDLimit(21)
	_, err := b.near.Socket(kernel.IPv4, kernel.Stream)
	b.want(err, syscall.EMFILE)
}
