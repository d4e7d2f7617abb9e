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

// scriptedSendFile is a kernel with a SendFile that the test supplies.
type scriptedSendFile struct {
	kernel.Sockets
	kernel.Native
	send func(send func() (int, error)) (int, error)
}

func (s *scriptedSendFile) SendFile(to, file int, offset int64, n int) (int, error) {
	return s.send(func() (int, error) { return s.Native.SendFile(to, file, offset, n) })
}

// withScriptedSendFile runs a test with a loop on each poller and a scriptedSendFile.
func withScriptedSendFile(t *testing.T, test func(t *testing.T, l *loop.Loop, disk *scriptedSendFile)) {
	for _, backend := range []string{"auto", "poll"} {
		t.Run(backend, func(t *testing.T) {
			k, err := kernel.Open(backend)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.Native().SendFile(-1, -1, 0, 0); err == syscall.ENOSYS {
				t.Skip("this system has no sendfile")
			}
			disk := &scriptedSendFile{Sockets: k.Sockets, Native: k.Native()}
			k.Sockets = disk
			l, err := loop.New(loop.Internal().WithKernel(loop.Options{Watchdog: -1}, k))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			test(t, l, disk)
		})
	}
}

// waitTurn waits, on another goroutine, until the loop has polled the kernel.
func waitTurn(l *loop.Loop) {
	done := make(chan struct{})
	left := 3
	var again func()
	again = func() {
		if left--; left == 0 {
			close(done)
			return
		}
		l.CallLater(0, again) // the loop reads the time when it polls the kernel
	}
	if l.Post(again) == nil {
		<-done
	}
}

// TestSendFileWritableDuringJob: the socket becomes writable after sendfile got EAGAIN
// and before the worker returns. The edge must not be lost.
func TestSendFileWritableDuringJob(t *testing.T) {
	withScriptedSendFile(t, func(t *testing.T, l *loop.Loop, disk *scriptedSendFile) {
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
			waitTurn(l)
			return n, err
		}
		f := tempFile(t, big)
		wrapFD(t, l, p[0], &script{
			made: func(c *transport.Conn) {
				c.SendFile(f, 0, -1, nil)
				c.Close()
			},
			lost: stopWhenLost(t, l, nil),
		})
		syscall.Close(p[0])
		run(t, l)
		take()
		if !bytes.Equal(got.Bytes(), big) {
			t.Errorf("%d of %d bytes arrived", got.Len(), len(big))
		}
	})
}

// TestSendFileFullSocketNoRetry: while the peer does not read, no worker retries.
func TestSendFileFullSocketNoRetry(t *testing.T) {
	withScriptedSendFile(t, func(t *testing.T, l *loop.Loop, disk *scriptedSendFile) {
		var tries atomic.Int32
		disk.send = func(send func() (int, error)) (int, error) {
			tries.Add(1)
			return send()
		}
		f := tempFile(t, bytes.Repeat(big, 16))
		serve(t, l, "tcp", &script{
			made: func(c *transport.Conn) {
				c.SendFile(f, 0, -1, nil)
				l.CallLater(20*time.Millisecond, c.Abort)
			},
			lost: stopWhenLost(t, l, nil),
		})
		run(t, l)
		if n := tries.Load(); n > 50 {
			t.Errorf("%d calls of sendfile", n)
		}
	})
}

// TestSendFileNothingAfterAbort: a worker that was about to send when Abort was called
// sends nothing.
func TestSendFileNothingAfterAbort(t *testing.T) {
	withScriptedSendFile(t, func(t *testing.T, l *loop.Loop, disk *scriptedSendFile) {
		aborted := make(chan struct{})
		sent := make(chan int, 1)
		var conn *transport.Conn
		var peer net.Conn
		disk.send = func(send func() (int, error)) (int, error) {
			l.Post(func() {
				conn.Abort()
				// The peer reads EOF although the worker holds the socket.
				if got, err := io.ReadAll(peer); err != nil || len(got) > 0 {
					t.Errorf("the peer got %q, %v", got, err)
				}
				close(aborted)
			})
			<-aborted
			n, err := send()
			if err == nil {
				t.Error("the worker sent after Abort")
			}
			sent <- n
			return n, err
		}
		f := tempFile(t, []byte("secret"))
		peer = serve(t, l, "tcp", &script{
			made: func(c *transport.Conn) {
				conn = c
				c.SendFile(f, 0, -1, nil)
				c.AfterFlush(func(error) {})
			},
			lost: stopWhenLost(t, l, nil),
		})
		run(t, l)
		if n := <-sent; n != 0 {
			t.Errorf("%d bytes arrived", n)
		}
	})
}
