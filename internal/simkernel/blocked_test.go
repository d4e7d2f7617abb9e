package simkernel_test

import (
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/simkernel"
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
