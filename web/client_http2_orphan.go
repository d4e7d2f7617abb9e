package web

import (
	"errors"
	"slices"

	"github.com/spindleloop/spindle"
)

// orphan is called when the run ends.
func (hc *h2Client) orphan() {
	if hc.orphaned || hc.ended != nil {
		return
	}
	hc.orphaned, hc.leaving = true, true
	hc.p.removeShared(hc)
	hc.wakeAll()
	hc.settle()
}

// wakeAll lets all requests look again whether they have to wait, and for what.
func (hc *h2Client) wakeAll() {
	for _, s := range slices.Clone(hc.fc.Streams()) {
		callOf(s).wakeAll()
	}
}

// undriven reports whether an orphaned connection needs a task that reads or writes.
func (hc *h2Client) undriven() bool {
	return hc.orphaned && (!hc.reading || !hc.writing && len(hc.fc.Out) > 0)
}

// drive writes or reads in the calling task, which waits for something of an orphaned
// connection. What it receives may be for other requests, and one of those has to read next.
func (hc *h2Client) drive() error {
	switch {
	case !hc.writing && len(hc.fc.Out) > 0:
		hc.writing = true
		defer hc.handOver(&hc.writing)
		out := hc.fc.Out
		hc.fc.Out = nil
		n, err := hc.conn.Write(out)
		if canceled := (*spindle.Canceled)(nil); errors.As(err, &canceled) {
			hc.fc.Out = append(out[n:], hc.fc.Out...)
			return err
		}
		if err != nil {
			hc.fail(err)
			return nil
		}
		hc.pump()
		hc.settle() // pump may have ended the last stream
	case !hc.reading:
		hc.reading = true
		defer hc.handOver(&hc.reading)
		return hc.readOnce()
	}
	return nil
}

// handOver ends the role of the calling task, and lets another one take it.
func (hc *h2Client) handOver(role *bool) {
	*role = false
	hc.wakeAll()
}

// endWriting is called when the task that writes has ended.
func (hc *h2Client) endWriting() {
	if hc.writing = false; hc.orphaned {
		hc.wakeAll()
	}
}
