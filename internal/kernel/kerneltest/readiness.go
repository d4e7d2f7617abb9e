package kerneltest

import (
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

var readiness = []test{
	{name: "LevelRepeatsWhileReady", run: func(t *kernelT) {
		a, b := t.pair()
		t.ok(t.Add(a, 5, kernel.Read, kernel.Level))
		t.silence()
		t.send(b, "x")
		for range 3 {
			if r := t.event(5); r&kernel.Readable == 0 {
				t.Fatalf("ready %b", r)
			}
		}
		t.recvNow(a)
		t.silence()
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
		t.silence()
		t.send(b, "y") // unread bytes or not, an arrival is an edge
		t.event(5)
	}},
	{name: "ModifyReportsAnEdgeAnew", run: func(t *kernelT) {
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
		t.silence() // in both directions
		t.ok(t.Modify(a, 6, kernel.Read, kernel.OneShot))
		if r := t.event(6); r&kernel.Readable == 0 {
			t.Fatalf("ready %b", r)
		}
		t.silence()
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
		t.until(a, kernel.Read)
		if r := t.until(a, kernel.Read|kernel.Write); r != kernel.Readable|kernel.Writable {
			t.Fatalf("ready %b", r)
		}
	}},
	{name: "TokensComeBackWhole", run: func(t *kernelT) {
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
		t.silence()
		t.send(b, "x")
		t.event(5)
	}},
	{name: "DeleteSilences", run: func(t *kernelT) {
		a, b := t.pair()
		t.ok(t.Add(a, 5, kernel.Read|kernel.Write, kernel.Level))
		t.event(5)
		t.ok(t.Delete(a))
		t.send(b, "x")
		t.silence()
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
			t.Logf("the number was not reused (%d, %d); the test proves less", a, c)
		}
		t.ok(t.Add(c, 6, kernel.Read, kernel.Level))
		t.silence()
	}},
	{name: "MistakesAreNamed", run: func(t *kernelT) {
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
	{name: "HalfCloseIsAHangUpToReaders", run: func(t *kernelT) {
		a, b := t.pair()
		t.send(b, "bye")
		t.ok(t.Shutdown(b, kernel.WriteSide))
		t.ok(t.Add(a, 5, kernel.Read, kernel.Level))
		for r := kernel.Ready(0); r&kernel.HangUp == 0; {
			if r = t.event(5); r&kernel.Readable == 0 {
				t.Fatalf("ready %b", r)
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
			t.Fatalf("read %q on the half that is open", got)
		}
	}},
	{name: "HalfCloseDoesNotWakeWriters", run: func(t *kernelT) {
		a, b := t.pair()
		t.fill(a)
		t.ok(t.Shutdown(b, kernel.WriteSide))
		t.until(a, kernel.Read) // it has arrived
		t.ok(t.Add(a, 5, kernel.Write, kernel.Level))
		t.silence()
	}},
	{name: "ResetReachesBothDirections", run: func(t *kernelT) {
		a, b := t.pair()
		t.ok(t.SetOption(b, kernel.LingerSeconds, 0))
		t.ok(t.CloseFD(b))
		for _, in := range []kernel.Interest{kernel.Read, kernel.Write} {
			r := t.until(a, in)
			for r&kernel.HangUp == 0 {
				r = t.until(a, in)
			}
			if r&kernel.Ready(in) == 0 {
				t.Fatalf("ready %b to interest %b", r, in)
			}
		}
		_, err := t.Recv(a, make([]byte, 8))
		t.want(err, syscall.ECONNRESET)
	}},
	{name: "FullBatchesStarveNobody", run: func(t *kernelT) {
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
			n, err := t.Wait(events[:], patience)
			t.ok(err)
			for _, ev := range events[:n] {
				seen[ev.Token] = true
			}
		}
		if len(seen) != many {
			t.Fatalf("saw %d of %d in %d waits", len(seen), many, many)
		}
	}},
}

// recvNow reads what is there already.
func (t *kernelT) recvNow(fd int) {
	t.Helper()
	_, err := t.Recv(fd, make([]byte, 256))
	t.ok(err)
}
