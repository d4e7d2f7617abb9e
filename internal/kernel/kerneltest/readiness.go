package kerneltest

import (
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

var readiness = []test{
	{name: "LevelRepeatsWhileReady", run: func(t *kernelT) {
		a, b := t.pair()
		t.ok(t.Add(a, 5, kernel.Read, kernel.Level))
		t.noEvents()
		t.send(b, "x")
		for range 3 {
			if r := t.event(5); r&kernel.Readable == 0 {
				t.Fatalf("ready %v", r)
			}
		}
		t.recvNow(a)
		t.noEvents()
	}},
	{name: "EdgeReportsEachArrival", run: func(t *kernelT) {
		a, b := t.pair()
		t.ok(t.Add(a, 5, kernel.Read, kernel.Edge))
		for range 3 {
			t.send(b, "x")
			t.event(5)
			t.recvNow(a)
		}
	}},
	{name: "EdgeDoesNotRepeat", needs: func(tr Traits) bool { return tr.Edges }, run: func(t *kernelT) {
		a, b := t.pair()
		t.ok(t.Add(a, 5, kernel.Read, kernel.Edge))
		t.send(b, "x")
		t.event(5)
		t.noEvents()
		t.send(b, "y") // an arrival is an edge even while earlier bytes are unread
		t.event(5)
	}},
	{name: "ModifyReportsAnEdgeAgain", run: func(t *kernelT) {
		a, b := t.pair()
		t.ok(t.Add(a, 5, kernel.Read, kernel.Edge))
		t.send(b, "x")
		t.event(5)
		t.ok(t.Modify(a, 6, kernel.Read, kernel.Edge))
		t.event(6)
	}},
	{name: "OneShotIsSilentUntilModify", run: func(t *kernelT) {
		a, b := t.pair()
		t.ok(t.Add(a, 5, kernel.Read|kernel.Write, kernel.OneShot))
		t.event(5) // writable
		t.send(b, "x")
		t.noEvents() // in both directions
		t.ok(t.Modify(a, 6, kernel.Read, kernel.OneShot))
		if r := t.event(6); r&kernel.Readable == 0 {
			t.Fatalf("ready %v", r)
		}
		t.noEvents()
	}},
	{name: "OneShotCanBeDeletedAfterItFired", run: func(t *kernelT) {
		a, _ := t.pair()
		t.ok(t.Add(a, 5, kernel.Write, kernel.OneShot))
		t.event(5)
		t.ok(t.Delete(a))
		t.ok(t.Add(a, 6, kernel.Write, kernel.Level))
		t.event(6)
	}},
	{name: "BothDirectionsInOneEvent", run: func(t *kernelT) {
		a, b := t.pair()
		t.send(b, "x")
		t.waitReady(a, kernel.Read)
		if r := t.waitReady(a, kernel.Read|kernel.Write); r != kernel.Readable|kernel.Writable {
			t.Fatalf("ready %v", r)
		}
	}},
	{name: "TokensKeepAllBits", run: func(t *kernelT) {
		a, _ := t.pair()
		const tok = 0xfedc_ba98_7654_3210
		t.ok(t.Add(a, tok, kernel.Write, kernel.Level))
		t.event(tok)
	}},
	{name: "ModifyChangesInterest", run: func(t *kernelT) {
		a, b := t.pair()
		t.ok(t.Add(a, 5, kernel.Write, kernel.Level))
		t.event(5)
		t.ok(t.Modify(a, 5, kernel.Read, kernel.Level))
		t.noEvents()
		t.send(b, "x")
		t.event(5)
	}},
	{name: "DeleteSilences", run: func(t *kernelT) {
		a, b := t.pair()
		t.ok(t.Add(a, 5, kernel.Read|kernel.Write, kernel.Level))
		t.event(5)
		t.ok(t.Delete(a))
		t.send(b, "x")
		t.noEvents()
	}},
	{name: "ReusedNumberHasItsOwnToken", run: func(t *kernelT) {
		a, b := t.pair()
		t.ok(t.Add(a, 5, kernel.Read, kernel.Level))
		t.send(b, "x")
		t.event(5)
		t.ok(t.Delete(a))
		t.ok(t.CloseFD(a))
		c := t.socket(kernel.IPv4, kernel.Datagram)
		if c != a {
			t.Logf("the descriptor number was not reused (%d, %d)", a, c)
		}
		t.ok(t.Add(c, 6, kernel.Read, kernel.Level))
		t.noEvents()
	}},
	{name: "MisuseFailsWithItsErrno", run: func(t *kernelT) {
		a, _ := t.pair()
		t.want(t.Modify(a, 5, kernel.Read, kernel.Level), syscall.ENOENT)
		t.want(t.Delete(a), syscall.ENOENT)
		t.ok(t.Add(a, 5, kernel.Read, kernel.Level))
		t.want(t.Add(a, 6, kernel.Read, kernel.Level), syscall.EEXIST)
		t.ok(t.Delete(a))
		t.ok(t.CloseFD(a))
		t.want(t.Add(a, 5, kernel.Read, kernel.Level), syscall.EBADF)
		t.want(t.Add(-1, 5, kernel.Read, kernel.Level), syscall.EBADF)
	}},
	{name: "HalfCloseIsAHangUpForReaders", run: func(t *kernelT) {
		a, b := t.pair()
		t.send(b, "bye")
		t.ok(t.Shutdown(b, kernel.WriteSide))
		t.ok(t.Add(a, 5, kernel.Read, kernel.Level))
		for r := kernel.Ready(0); r&kernel.HangUp == 0; {
			if r = t.event(5); r&kernel.Readable == 0 {
				t.Fatalf("ready %v", r)
			}
		}
		t.ok(t.Delete(a))
		if got := t.recv(a); got != "bye" {
			t.Fatalf("read %q before the end", got)
		}
		if got := t.recv(a); got != "" {
			t.Fatalf("read %q at the end", got)
		}
		t.send(a, "still here")
		if got := t.recv(b); got != "still here" {
			t.Fatalf("read %q on the open half", got)
		}
	}},
	{name: "HalfCloseDoesNotWakeWriters", run: func(t *kernelT) {
		a, b := t.pair()
		t.fill(a)
		t.ok(t.Shutdown(b, kernel.WriteSide))
		t.waitReady(a, kernel.Read) // it has arrived
		t.ok(t.Add(a, 5, kernel.Write, kernel.Level))
		t.noEvents()
	}},
	{name: "ResetReachesBothDirections", run: func(t *kernelT) {
		a, b := t.pair()
		t.ok(t.SetOption(b, kernel.LingerSeconds, 0))
		t.ok(t.CloseFD(b))
		for _, in := range []kernel.Interest{kernel.Read, kernel.Write} {
			r := t.waitReady(a, in)
			for r&kernel.HangUp == 0 {
				r = t.waitReady(a, in)
			}
			if r&kernel.Ready(in) == 0 {
				t.Fatalf("ready %v for interest %v", r, in)
			}
		}
		_, err := t.Recv(a, make([]byte, 8))
		t.want(err, syscall.ECONNRESET)
	}},
	{name: "FullBatchesStarveNoDescriptor", run: func(t *kernelT) {
		const many = 10
		var fds [many]int
		for i := range fds {
			fds[i], _ = t.pair()
		}
		seen := map[kernel.Token]bool{}
		for i, fd := range fds {
			t.ok(t.Add(fd, kernel.Token(i), kernel.Write, kernel.Level))
		}
		var events [3]kernel.Event
		for range many {
			n, err := t.Wait(events[:], testTimeout)
			t.ok(err)
			for _, ev := range events[:n] {
				seen[ev.Token] = true
			}
		}
		if len(seen) != many {
			t.Fatalf("%d waits reported %d of %d descriptors", many, len(seen), many)
		}
	}},
}

// recvNow reads data that has already arrived.
func (t *kernelT) recvNow(fd int) {
	t.Helper()
	_, err := t.Recv(fd, make([]byte, 256))
	t.ok(err)
}
