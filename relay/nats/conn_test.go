package nats_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
)

// TestWritesToAServerThatDoesNotRead do not wait. What they have written arrives in order when
// the server reads, and publishers on goroutines wait until then.
func TestWritesToAServerThatDoesNotRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := nats.Dial(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var want bytes.Buffer
	chunk := make([]byte, 64<<10)
	for i := byte(0); nats.Unsent(c) < 2<<20; i++ {
		for k := range chunk {
			chunk[k] = i
		}
		want.Write(chunk)
		if n, err := c.Write(chunk); n != len(chunk) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	waited := make(chan struct{})
	go func() {
		nats.AwaitSpace(c)
		close(waited)
	}()
	select {
	case <-waited:
		t.Error("there is space although the server reads nothing")
	default:
	}
	got := make([]byte, want.Len())
	if _, err := io.ReadFull(server, got); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("what was written has not arrived: %v", err)
	}
	<-waited
	// After the end, neither waits.
	for nats.Unsent(c) < 2<<20 {
		if _, err := c.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	nats.AwaitSpace(c)
	if _, err := c.Write(chunk); err == nil {
		t.Error("a write after Close has succeeded")
	}
}

// TestBurstsShareABuffer: messages that are written together are copied, but not to new memory each
// time.
func TestBurstsShareABuffer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := nats.Dial(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go io.Copy(io.Discard, server)
	const bursts, messages, size = 100, 100, 200
	message := make([]byte, size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range bursts {
		for range messages {
			if _, err := c.Write(message); err != nil {
				t.Fatal(err)
			}
		}
		until.Holds(t, func() bool { return nats.Unsent(c) == 0 })
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / (bursts * messages); each > size/2 {
		t.Errorf("a message of %d bytes takes %d bytes of new memory", size, each)
	}
}

// TestWritesToAServerThatHasGone fail as those of a bus that is not connected, and keep the reason.
func TestWritesToAServerThatHasGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := nats.Dial(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	server.(*net.TCPConn).SetLinger(0) // so that Close resets the connection
	server.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil { // the reset has come
		t.Fatal("the server has sent something")
	}
	for _, write := range []string{"first", "second"} {
		_, err := c.Write([]byte("PING\r\n"))
		if translated := nats.Translated(err); !errors.Is(translated, relay.ErrDown) || !errors.As(translated, new(syscall.Errno)) {
			t.Errorf("the %s write fails with %v", write, err)
		}
	}
}
