package transport_test

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// slowDisk is a system whose SendFile is the test's.
type slowDisk struct {
	kernel.Sockets
	kernel.Native
	send func(send func() (int, error)) (int, error)
}

func (s *slowDisk) SendFile(to, file int, offset int64, n int) (int, error) {
	return s.send(func() (int, error) { return s.Native.SendFile(to, file, offset, n) })
}

// onSlowDisks runs a test on loops whose SendFile is the test's.
func onSlowDisks(t *testing.T, test func(t *testing.T, l *loop.Loop, disk *slowDisk)) {
	for _, backend := range []string{"auto", "poll"} {
		t.Run(backend, func(t *testing.T) {
			k, err := kernel.Open(backend)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.Native().SendFile(-1, -1, 0, 0); err == syscall.ENOSYS {
				t.Skip("this system has no SendFile")
			}
			disk := &slowDisk{Sockets: k.Sockets, Native: k.Native()}
			k.Sockets = disk
			l, err := loop.New(loop.Options{Kernel: k, Watchdog: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			test(t, l, disk)
		})
	}
}

// turns waits, off the loop, until it has asked the kernel.
func turns(l *loop.Loop) {
	done := make(chan struct{})
	left := 3
	var again func()
	again = func() {
		if left--; left == 0 {
			close(done)
			return
		}
		l.CallLater(0, again) // a timer's time is read when the kernel is asked
	}
	if l.Post(again) == nil {
		<-done
	}
}

// TestRoomMadeWhileAWorkerSends: the news of it comes while the worker, who found
// none, has not come back. It must not be lost.
func TestRoomMadeWhileAWorkerSends(t *testing.T) {
	onSlowDisks(t, func(t *testing.T, l *loop.Loop, disk *slowDisk) {
		p, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(p[1])
		syscall.SetNonblock(p[1], true)
		var got bytes.Buffer
		take := func() {
			buf := make([]byte, 64<<10)
			for {
				n, _ := syscall.Read(p[1], buf)
				if n <= 0 {
					return
				}
				got.Write(buf[:n])
			}
		}
		disk.send = func(send func() (int, error)) (int, error) {
			n, err := send()
			take()
			turns(l)
			return n, err
		}
		f := fileOf(t, big)
		wrapFD(t, l, p[0], &script{
			made: func(c *transport.Conn) {
				c.SendFile(f, 0, -1, nil)
				c.Close()
			},
			lost: stops(t, l, nil),
		})
		syscall.Close(p[0])
		run(t, l)
		take()
		if !bytes.Equal(got.Bytes(), big) {
			t.Errorf("%d bytes of %d", got.Len(), len(big))
		}
	})
}

// TestAFullSocketKeepsNoWorkerBusy: nobody reads, and so nobody tries.
func TestAFullSocketKeepsNoWorkerBusy(t *testing.T) {
	onSlowDisks(t, func(t *testing.T, l *loop.Loop, disk *slowDisk) {
		var tries atomic.Int32
		disk.send = func(send func() (int, error)) (int, error) {
			tries.Add(1)
			return send()
		}
		f := fileOf(t, bytes.Repeat(big, 16))
		serve(t, l, "tcp", &script{
			made: func(c *transport.Conn) {
				c.SendFile(f, 0, -1, nil)
				l.CallLater(20*time.Millisecond, c.Abort)
			},
			lost: stops(t, l, nil),
		})
		run(t, l)
		if n := tries.Load(); n > 50 {
			t.Errorf("%d tries", n)
		}
	})
}

// TestNothingIsSentAfterAbort: a worker that was about to send does not.
func TestNothingIsSentAfterAbort(t *testing.T) {
	onSlowDisks(t, func(t *testing.T, l *loop.Loop, disk *slowDisk) {
		aborted := make(chan struct{})
		sent := make(chan int, 1)
		var conn *transport.Conn
		var peer net.Conn
		disk.send = func(send func() (int, error)) (int, error) {
			l.Post(func() {
				conn.Abort()
				// The peer sees the end although the worker holds the socket.
				if got, err := io.ReadAll(peer); err != nil || len(got) > 0 {
					t.Errorf("the peer got %q, %v", got, err)
				}
				close(aborted)
			})
			<-aborted
			n, err := send()
			if err == nil {
				t.Error("it was sent")
			}
			sent <- n
			return n, err
		}
		f := fileOf(t, []byte("secret"))
		peer = serve(t, l, "tcp", &script{
			made: func(c *transport.Conn) {
				conn = c
				c.SendFile(f, 0, -1, nil)
				c.AfterFlush(func(error) {})
			},
			lost: stops(t, l, nil),
		})
		run(t, l)
		if n := <-sent; n != 0 {
			t.Errorf("%d bytes", n)
		}
	})
}
