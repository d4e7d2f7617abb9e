package stream_test

import (
	"bytes"
	"context"
	"io"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

var networks = []string{"tcp", "unix"}

// TestAllBytesArriveBeforeEOF sends a megabyte and then ends the stream with
// CloseWrite or Close.
func TestAllBytesArriveBeforeEOF(t *testing.T) {
	for _, end := range []struct {
		name string
		end  func(*stream.Conn) error
	}{{"CloseWrite", (*stream.Conn).CloseWrite}, {"Close", (*stream.Conn).Close}} {
		t.Run(end.name, func(t *testing.T) {
			on(t, func(t *testing.T, ctx context.Context) {
				for _, network := range networks {
					a, b := pair(t, ctx, network)
					together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
						n.Go(func(ctx context.Context) error {
							if m, err := a.Write(pattern(1 << 20)); m != 1<<20 || err != nil {
								t.Errorf("%d written, %v", m, err)
							}
							return end.end(a)
						})
						got, err := io.ReadAll(b)
						check(t, err)
						same(t, got, pattern(1<<20))
					})
					a.Close()
					check(t, b.Close())
				}
			})
		})
	}
}

// TestCloseSendsBufferedBytes: the reader starts after the writer has closed.
func TestCloseSendsBufferedBytes(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		for _, network := range networks {
			a, b := pair(t, ctx, network)
			m, err := a.Write(pattern(60_000))
			check(t, err)
			check(t, a.Close())
			got, err := io.ReadAll(b)
			check(t, err)
			same(t, got, pattern(m))
			b.Close()
		}
	})
}

// TestWritersTakeTurns checks that the bytes of one Write stay together and that
// Writes run in call order.
func TestWritersTakeTurns(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "tcp")
		check(t, a.SetWriteBuffer(64<<10))
		check(t, b.SetReadBuffer(64<<10))
		const writers, size = 5, 1 << 20
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			for i := range writers {
				n.Go(func(ctx context.Context) error {
					m, err := a.Write(bytes.Repeat([]byte{byte(i)}, size))
					if m != size {
						t.Errorf("writer %d: %d bytes", i, m)
					}
					return err
				})
			}
			waiting(t, ctx, writers, "Conn.Write")
			got := receive(t, b, writers*size)
			var order []byte
			for at := 0; at+size <= len(got); at += size {
				order = append(order, got[at])
				if bytes.Count(got[at:at+size], got[at:at+1]) != size {
					t.Fatalf("the bytes of Write %d are not contiguous", at/size+1)
				}
			}
			if want := []byte{0, 1, 2, 3, 4}; !bytes.Equal(order, want) {
				t.Errorf("order %v", order)
			}
		})
	})
}

// TestReadersTakeTurns checks that Reads are served in call order.
func TestReadersTakeTurns(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "unix")
		got := map[int]byte{}
		var order []int
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			for i := range 4 {
				n.Go(func(ctx context.Context) error {
					p := make([]byte, 1)
					_, err := b.Read(p)
					got[i] = p[0]
					order = append(order, i)
					return err
				})
			}
			waiting(t, ctx, 4, "Conn.Read")
			_, err := a.Write([]byte("abcd"))
			check(t, err)
		})
		if !slices.Equal(order, []int{0, 1, 2, 3}) || got[0] != 'a' || got[1] != 'b' || got[2] != 'c' || got[3] != 'd' {
			t.Errorf("order %v, bytes %v", order, got)
		}
	})
}

// TestHalfClose checks that one side ends while the other continues.
func TestHalfClose(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		for _, network := range networks {
			a, b := pair(t, ctx, network)
			_, err := a.Write([]byte("question"))
			check(t, err)
			check(t, a.CloseWrite())
			_, err = a.Write([]byte("more"))
			want(t, "Write after CloseWrite", err, syscall.EPIPE)
			got, err := io.ReadAll(b)
			check(t, err)
			_, err = b.Write(append(got, "? answer"...))
			check(t, err)
			if got := receive(t, a, 16); string(got) != "question? answer" {
				t.Errorf("%q", got)
			}
			check(t, a.CloseRead())
			_, err = a.Read(make([]byte, 1))
			want(t, "Read after CloseRead", err, io.EOF)
			check(t, a.Close())
			check(t, b.Close())
		}
	})
}

// TestHalfCloseEndsPendingCalls checks calls that wait on the side that is closed.
func TestHalfCloseEndsPendingCalls(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, _ := pair(t, ctx, "tcp")
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			for range 2 {
				n.Go(func(ctx context.Context) error {
					_, err := a.Read(make([]byte, 1))
					want(t, "waiting Read", err, io.EOF)
					return nil
				})
				n.Go(func(ctx context.Context) error {
					m, err := a.Write(pattern(16 << 20))
					want(t, "waiting Write", err, syscall.EPIPE)
					if m == 16<<20 {
						t.Error("all of it was written")
					}
					return nil
				})
			}
			waiting(t, ctx, 2, "Conn.Read")
			waiting(t, ctx, 2, "Conn.Write")
			check(t, a.CloseRead())
			check(t, a.CloseWrite())
		})
	})
}

// TestReset checks what happens when the peer resets the connection.
func TestReset(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "tcp")
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			n.Go(func(ctx context.Context) error {
				_, err := a.Read(make([]byte, 1))
				want(t, "waiting Read", err, syscall.ECONNRESET)
				return nil
			})
			n.Go(func(ctx context.Context) error {
				_, err := a.Write(pattern(16 << 20))
				want(t, "waiting Write", err, syscall.ECONNRESET, syscall.EPIPE)
				return nil
			})
			waiting(t, ctx, 1, "Conn.Read")
			waiting(t, ctx, 1, "Conn.Write")
			check(t, b.SetLinger(0))
			check(t, b.Close())
		})
		_, err := a.Write([]byte("x"))
		want(t, "Write", err, syscall.EPIPE)
	})
}

// TestEmptyReadAndWrite checks that an empty Read returns at once, as in net,
// whatever the state of the stream.
func TestEmptyReadAndWrite(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "tcp")
		nothing := func(when string) {
			t.Helper()
			if n, err := a.Read(nil); n != 0 || err != nil {
				t.Errorf("%s: %d, %v", when, n, err)
			}
		}
		nothing("nothing sent")
		_, err := b.Write([]byte("ab"))
		check(t, err)
		receive(t, a, 1)
		nothing("something there")
		if n, err := a.Read(make([]byte, 8)); n != 1 || err != nil { // the socket is known to be drained
			t.Errorf("Read: %d, %v", n, err)
		}
		nothing("all read")
		check(t, a.SetReadDeadline(time.Unix(1, 0)))
		nothing("too late")
		check(t, a.SetReadDeadline(time.Time{}))
		if n, err := a.Write(nil); n != 0 || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
		b.Close()
		_, err = a.Read(make([]byte, 1))
		want(t, "Read", err, io.EOF)
		nothing("at the end")
		a.Close()
		if _, err := a.Read(nil); err == nil {
			t.Error("a closed connection can be read from")
		}
	})
}
