package simkernel_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/simkernel"
)

func TestClosingAListenerResetsWaitingConnections(t *testing.T) {
	b := newBench(t)
	fd := b.dial()
	b.pass(10 * time.Millisecond)
	b.ok(b.far.CloseFD(b.listener))
	b.pass(10 * time.Millisecond)
	b.outcome(fd, syscall.ECONNRESET)
	other := b.dial()
	b.pass(10 * time.Millisecond)
	b.outcome(other, syscall.ECONNREFUSED)
}

// TestBytesWaitForAPartitionToEnd: all bytes arrive after it, in order.
func TestBytesWaitForAPartitionToEnd(t *testing.T) {
	for name, part := range map[string]func(*bench, bool){
		"there": func(b *bench, cut bool) { b.there.Cut(cut) },
		"back":  func(b *bench, cut bool) { b.back.Cut(cut) },
		"both":  func(b *bench, cut bool) { b.there.Cut(cut); b.back.Cut(cut) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			near, far := b.pair()
			sent := strings.Repeat("0123456789", 30000)
			part(b, true)
			got, written := "", 0
			for i := 0; len(got) < len(sent); i++ {
				if i == 10 {
					part(b, false)
				}
				if i > 300 {
					t.Fatalf("%d of %d bytes arrived", len(got), len(sent))
				}
				if n, err := b.near.Send(near, []byte(sent[written:])); err == nil {
					written += n
				}
				b.pass(time.Second)
				buf := make([]byte, 1<<20)
				if n, err := b.far.Recv(far, buf); err == nil {
					got += string(buf[:n])
				}
				if i < 10 && name != "back" && got != "" {
					t.Fatal("bytes passed the partition")
				}
			}
			if got != sent {
				t.Error("the bytes are not those that were sent")
			}
		})
	}
}

func TestAConnectionTimesOutInTheEnd(t *testing.T) {
	b := newBench(t)
	near, _ := b.pair()
	b.there.Cut(true)
	_, err := b.near.Send(near, []byte("hello"))
	b.ok(err)
	b.pass(10 * time.Minute)
	b.outcome(near, 0)
	b.pass(20 * time.Minute)
	b.outcome(near, syscall.ETIMEDOUT)
}

// TestACutInOneDirectionTimesOutAtBothEnds: the bytes of one end arrive, and its
// acknowledgements do not.
func TestACutInOneDirectionTimesOutAtBothEnds(t *testing.T) {
	b := newBench(t)
	near, far := b.pair()
	b.back.Cut(true)
	_, err := b.far.Send(far, []byte("answer")) // times out first
	b.ok(err)
	b.pass(time.Minute)
	_, err = b.near.Send(near, []byte("question"))
	b.ok(err)
	b.pass(30 * time.Minute)
	if got := b.recv(b.far, far); got != "question" {
		t.Errorf("got %q", got)
	}
	b.outcome(near, syscall.ETIMEDOUT)
	if code, err := b.far.Option(far, kernel.SocketError); err != nil || syscall.Errno(code) != syscall.ETIMEDOUT {
		t.Errorf("the other end has %v, %v", syscall.Errno(code), err)
	}
}

// TestAnEndThatHasTimedOutResetsItsPeer: when the cut is over, the peer's next bytes are
// answered with a reset.
func TestAnEndThatHasTimedOutResetsItsPeer(t *testing.T) {
	b := newBench(t)
	near, far := b.pair()
	b.back.Cut(true)
	_, err := b.far.Send(far, []byte("answer"))
	b.ok(err)
	b.pass(30 * time.Minute)
	b.outcome(near, 0)
	b.back.Cut(false)
	_, err = b.near.Send(near, []byte("question"))
	b.ok(err)
	b.pass(time.Second)
	b.outcome(near, syscall.ECONNRESET)
}

// TestEndsSurviveAPartition: a close during a partition arrives after it.
func TestEndsSurviveAPartition(t *testing.T) {
	b := newBench(t)
	near, far := b.pair()
	b.there.Cut(true)
	_, err := b.near.Send(near, []byte("bye"))
	b.ok(err)
	b.ok(b.near.CloseFD(near))
	b.pass(time.Second)
	b.there.Cut(false)
	b.pass(10 * time.Second)
	if got := b.recv(b.far, far) + "." + b.recv(b.far, far); got != "bye." {
		t.Errorf("got %q", got)
	}
}

func TestCloseWithUnreadBytesResets(t *testing.T) {
	b := newBench(t)
	near, far := b.pair()
	_, err := b.near.Send(near, []byte("hello"))
	b.ok(err)
	b.pass(10 * time.Millisecond)
	b.ok(b.far.CloseFD(far))
	b.pass(10 * time.Millisecond)
	b.outcome(near, syscall.ECONNRESET)
}

// TestALostResetIsSentAgain: the half-open end gets a reset when it sends.
func TestALostResetIsSentAgain(t *testing.T) {
	b := newBench(t)
	near, _ := b.pair()
	b.back.Cut(true)
	b.far.Host().Crash()
	b.pass(time.Second)
	b.back.Cut(false)
	b.outcome(near, 0)
	_, err := b.near.Send(near, []byte("hello?"))
	b.ok(err)
	b.pass(time.Second)
	b.outcome(near, 0) // no answer
	b.far.Host().Boot()
	b.pass(time.Minute)
	b.outcome(near, syscall.ECONNRESET)
}

// TestNothingOvertakes: whatever the latency of each segment, the end comes last.
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

// TestASenderNeedsAcknowledgements: without them it does not learn of free space.
func TestASenderNeedsAcknowledgements(t *testing.T) {
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

// TestWritersAreWokenOnce, not with every acknowledgement.
func TestWritersAreWokenOnce(t *testing.T) {
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
	woken := 0
	for range 100 {
		b.far.Recv(far, make([]byte, 4<<10))
		b.pass(10 * time.Millisecond)
		var events [2]kernel.Event
		n, err := b.near.Wait(events[:], 0)
		b.ok(err)
		woken += n
	}
	if woken != 1 {
		t.Errorf("woken %d times", woken)
	}
}

// TestALostWindowUpdateIsProbedFor: the sender has filled the window, and the message that
// the receiver has read it is lost.
func TestALostWindowUpdateIsProbedFor(t *testing.T) {
	b := newBench(t)
	near, far := b.pair()
	_, err := b.near.Send(near, make([]byte, 64<<10))
	b.ok(err)
	b.pass(time.Second)
	b.back.Cut(true)
	for range 2 { // the second half of the window is another update
		_, err := b.far.Recv(far, make([]byte, 32<<10))
		b.ok(err)
	}
	b.pass(time.Second)
	b.back.Cut(false)
	b.pass(time.Hour) // a sender that has nothing to send does not time out
	_, err = b.near.Send(near, []byte("hello"))
	b.ok(err)
	b.pass(time.Second)
	if got := b.recv(b.far, far); got != "hello" {
		t.Errorf("got %q", got)
	}
}
