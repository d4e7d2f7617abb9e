package simkernel_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/simkernel"
)

// TestNothingOvertakes: however long each segment takes, the end comes last.
func TestNothingOvertakes(t *testing.T) {
	b := newBench(t)
	for range 20 {
		b.there.Delay = nil
		near, far := b.pair()
		b.there.Delay = simkernel.Uniform(0, 10*time.Millisecond)
		for range 10 {
			_, err := b.near.Send(near, []byte("0123456789"))
			b.ok(err)
		}
		b.ok(b.near.Shutdown(near, kernel.WriteSide))
		got := 0
		for buf := make([]byte, 256); ; b.pass(100 * time.Microsecond) {
			n, err := b.far.Recv(far, buf)
			if err == syscall.EAGAIN {
				continue
			}
			b.ok(err)
			if n == 0 {
				break
			}
			got += n
		}
		if got != 100 {
			t.Fatalf("the end came after %d of 100 bytes", got)
		}
	}
}

// TestASenderKnowsOnlyWhatItIsTold: with the way back cut it hears of no room.
func TestASenderKnowsOnlyWhatItIsTold(t *testing.T) {
	b := newBench(t)
	near, far := b.pair()
	b.back.Cut(true)
	n, err := b.near.Send(near, make([]byte, 64<<10))
	b.ok(err)
	b.pass(time.Second)
	if got := len(b.recv(b.far, far)); got != n {
		t.Errorf("%d of %d bytes arrived", got, n)
	}
	_, err = b.near.Send(near, []byte("x"))
	b.want(err, syscall.EAGAIN)
	b.back.Cut(false)
	b.pass(time.Minute)
	_, err = b.near.Send(near, []byte("x"))
	b.ok(err)
}

// TestWritersAreToldOfRoomOnce, not with every acknowledgement.
func TestWritersAreToldOfRoomOnce(t *testing.T) {
	b := newBench(t)
	near, far := b.pair()
	for {
		if _, err := b.near.Send(near, make([]byte, 8<<10)); err != nil {
			b.want(err, syscall.EAGAIN)
			break
		}
		b.pass(10 * time.Millisecond)
	}
	b.ok(b.near.Add(near, 1, kernel.Write, kernel.Edge))
	told := 0
	for range 100 {
		b.far.Recv(far, make([]byte, 4<<10))
		b.pass(10 * time.Millisecond)
		var events [2]kernel.Event
		n, err := b.near.Wait(events[:], 0)
		b.ok(err)
		told += n
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}

func TestWhoMayShareAnAddress(t *testing.T) {
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
	b.ok(bind(kernel.ReuseAddr, true)) // while nobody listens
	b.want(bind(kernel.ReuseAddr, false), syscall.EADDRINUSE)
	b.want(bind(kernel.ReusePort, false), syscall.EADDRINUSE) // the others do not
	b.want(bind(0, false), syscall.EADDRINUSE)
	at = kernel.Addr{AddrPort: loopbackPort(99)}
	b.ok(bind(0, true)) // another address
	b.want(bind(0, true), syscall.EADDRINUSE)
}

// TestARefusalIsForTheAddressItIsAbout: not for whom one talks to since.
func TestARefusalIsForTheAddressItIsAbout(t *testing.T) {
	b := newBench(t)
	fd := b.socket(b.near, kernel.IPv4, kernel.Datagram)
	b.ok(b.near.Connect(fd, addr(b.far.Host(), 9)))
	_, err := b.near.Send(fd, []byte("x"))
	b.ok(err)
	b.ok(b.near.Connect(fd, addr(b.far.Host(), 10)))
	b.pass(time.Second)
	b.outcome(fd, 0)
}
