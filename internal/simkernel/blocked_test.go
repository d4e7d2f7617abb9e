package simkernel_test

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/loop"
)

// slowBubble is a bubble on a busy machine. Its time passes when the test allows it.
type slowBubble struct {
	passing, pass chan struct{}
	now           time.Duration
}

func (b *slowBubble) Pass(d time.Duration) time.Duration {
	b.passing <- struct{}{}
	<-b.pass
	b.now += d
	return b.now
}

func (b *slowBubble) Begin() time.Duration { return b.now }
func (b *slowBubble) Slept() time.Duration { return 0 }
func (b *slowBubble) Poke()                {}
func (b *slowBubble) Seeded() bool         { return false }
func (b *slowBubble) Strays() error        { return nil }

// TestPassingTimeIsNotABlock: a driver that waits for its bubble's time does not count as a
// blocked program, however long it takes.
func TestPassingTimeIsNotABlock(t *testing.T) {
	b := &slowBubble{passing: make(chan struct{}), pass: make(chan struct{})}
	w := simkernel.New(1)
	w.SetBubble(b)
	happened := false
	w.After(time.Second, func() { happened = true })
	ended := make(chan error)
	go func() { ended <- w.Drive(func() bool { return happened }) }()
	<-b.passing
	if err := w.Blocked(); err != nil {
		t.Error(err)
	}
	close(b.pass)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestStartIsNotABlock: the goroutine that calls Loop.Run waits for another one, which runs
// the loop. It does not count as blocked while the other one has not begun.
func TestStartIsNotABlock(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := simkernel.New(1)
	caller := goid.Current()
	w.AddHost("a").NewProcess().Attend(func() bool { return false }, func() uintptr { return caller })
	l.CallSoon(func() {
		for !bytes.Contains(goid.StackOf(goid.NumberOf(caller)), []byte("[chan receive")) {
			runtime.Gosched()
		}
		if err := w.Blocked(); err != nil {
			t.Error(err)
		}
		l.Stop()
	})
	if err := l.Run(t.Context()); err != nil {
		t.Error(err)
	}
}
