package sock_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// conn is a connection with an owner that only notes readiness.
type conn struct{ sock.Conn }

func (c *conn) Ready(r loop.Ready) { c.Note(r) }
func (c *conn) SocketOrphaned()    { c.Close() }
func (c *conn) Socket() *sock.Conn { return &c.Conn }

// TestPausedConnIsWatchedUntilTheSecondReport: readiness that the owner does not use at
// once costs no call of the kernel, and readiness that is reported again ends the watch.
func TestPausedConnIsWatchedUntilTheSecondReport(t *testing.T) {
	f, r := newFake(t)
	f.open[7] = true
	var c conn
	if err := c.Init(r, 7, sock.TCP, &c); err != nil {
		t.Fatal(err)
	}
	watched := func() bool { _, ok := f.watched[7]; return ok }
	for round := range 3 {
		c.PauseReading()
		f.ready(7, kernel.Readable)
		turn(t, r)
		if !c.Readable() || !watched() {
			t.Fatalf("round %d: after the first report: readable %v, watched %v", round, c.Readable(), watched())
		}
		if err := c.ResumeReading(); err != nil || !watched() {
			t.Fatalf("round %d: ResumeReading: %v, watched %v", round, err, watched())
		}
	}
	if f.count("Add") != 1 || f.count("Modify") != 0 {
		t.Errorf("calls of the kernel: %v", f.calls)
	}
	c.PauseReading()
	for range 2 {
		f.ready(7, kernel.Readable)
		turn(t, r)
	}
	if watched() {
		t.Error("watched after the second report")
	}
	if err := c.ResumeReading(); err != nil || !watched() {
		t.Errorf("ResumeReading: %v, watched %v", err, watched())
	}
	c.Close()
}
