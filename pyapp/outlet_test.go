package pyapp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/pyapp"
)

// numbered returns a frame of a sender: two lengths, the sender, a number, and padding.
func numbered(sender, number, padding int) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+padding))
	b = binary.BigEndian.AppendUint32(b, uint32(sender))
	b = binary.BigEndian.AppendUint32(b, uint32(number))
	return append(b, make([]byte, padding)...)
}

// TestFramesStayWholeAndInOrder: many goroutines send frames of all sizes to a pipe that is often full.
func TestFramesStayWholeAndInOrder(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var writers, senders sync.WaitGroup
	o := pyapp.NewOutlet(out, &writers)
	const many, each = 8, 400
	for sender := range many {
		senders.Go(func() {
			for n := range each {
				switch n % 8 {
				case 3:
					o.Post(numbered(sender, n, 0))
					continue
				case 5:
					head := numbered(sender, n, 100<<10)
					if err := o.Put(t.Context(), head[:12], head[12:]); err != nil {
						t.Error(err)
					}
					continue
				}
				if err := o.Put(t.Context(), numbered(sender, n, n%7*10_000), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	next := make([]int, many)
	r := bufio.NewReader(in)
	for range many * each {
		var head [12]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			t.Fatal(err)
		}
		sender, number := binary.BigEndian.Uint32(head[4:]), int(binary.BigEndian.Uint32(head[8:]))
		if sender >= many || number%8 != 3 && next[sender] != number || next[sender] < number {
			t.Fatalf("frame %d of sender %d; next are %v", number, sender, next)
		}
		if number%8 != 3 { // later frames may overtake one that was posted, but it overtakes none
			if next[sender]++; next[sender]%8 == 3 {
				next[sender]++
			}
		}
		if _, err := r.Discard(int(binary.BigEndian.Uint32(head[:])) - 8); err != nil {
			t.Fatal(err)
		}
	}
	senders.Wait()
	o.Close()
	out.Close()
	writers.Wait()
	in.Close()
}

// TestPutToAFullPipe: it waits for its place no longer than its context, and later frames still come whole.
func TestPutToAFullPipe(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var writers sync.WaitGroup
	o := pyapp.NewOutlet(out, &writers)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sent := 0
	for err == nil { // the pipe and the queue are full in the end
		if err = o.Put(ctx, numbered(0, sent, 50_000), nil); err == nil {
			sent++
		}
	}
	if !errors.Is(err, context.Canceled) || sent == 0 {
		t.Fatal(sent, err)
	}
	for n := range sent {
		b := make([]byte, 12+50_000)
		if _, err := io.ReadFull(in, b); err != nil || binary.BigEndian.Uint32(b[8:]) != uint32(n) {
			t.Fatal(n, err)
		}
	}
	until.Holds(t, func() bool { return o.Unsent() == 0 })
	b := make([]byte, 12+10)
	if err := o.Put(t.Context(), numbered(0, sent, 10), nil); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(in, b); err != nil || !bytes.Equal(b, numbered(0, sent, 10)) {
		t.Errorf("after the others comes %x, %v", b, err)
	}
	o.Close()
	if err := o.Put(t.Context(), nil, make([]byte, 1)); !errors.Is(err, cosync.ErrClosed) {
		t.Error(err)
	}
	out.Close()
	writers.Wait()
}
