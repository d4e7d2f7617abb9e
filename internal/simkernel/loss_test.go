package simkernel_test

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestClosingAListenerResetsWhoWaits(t *testing.T) {
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

// TestBytesWaitForAPartitionToEnd: all arrive, in order, after it.
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
					t.Fatal("something has passed")
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

// TestEndsSurviveAPartition: a close is not forgotten.
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

// TestAResetThatIsLostIsMadeUpFor: the half-open end learns of it when it speaks.
func TestAResetThatIsLostIsMadeUpFor(t *testing.T) {
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
	b.outcome(near, 0) // nobody answers
	b.far.Host().Boot()
	b.pass(time.Minute)
	b.outcome(near, syscall.ECONNRESET)
}
