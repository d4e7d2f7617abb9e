package stream_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
)

// TestWritev checks that the buffers arrive together and are not modified, from
// tasks and goroutines, with more buffers than one system call takes.
func TestWritev(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		for _, network := range networks {
			a, b := pair(t, ctx, network)
			var bufs [][]byte
			for i := range 3000 {
				bufs = append(bufs, bytes.Repeat([]byte{byte(i)}, i%200))
			}
			all := bytes.Join(bufs, nil)
			before := bytes.Join(bufs, []byte("|"))
			for _, write := range []func([][]byte) (int, error){a.Writev, func(bufs [][]byte) (int, error) {
				return spindle.Blocking(ctx, func() (int, error) { return a.Writev(bufs) })
			}} {
				together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
					n.Go(func(context.Context) error {
						m, err := write(bufs)
						if m != len(all) {
							t.Errorf("%d bytes", m)
						}
						return err
					})
					n.Go(func(context.Context) error { _, err := a.Write([]byte("end")); return err })
					got := receive(t, b, len(all)+3)
					if !bytes.Equal(got, append(bytes.Clone(all), "end"...)) && !bytes.Equal(got, append([]byte("end"), all...)) {
						t.Error("the buffers did not arrive together")
					}
				})
			}
			if !bytes.Equal(bytes.Join(bufs, []byte("|")), before) {
				t.Error("the buffers were changed")
			}
			if n, err := a.Writev(nil); n != 0 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}
	})
}

// TestWritevCancelledOrLate checks the byte count of a Writev that ends early, and
// that borrowed bytes are sent unchanged.
func TestWritevCancelledOrLate(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "unix")
		narrow(t, a)
		big := [][]byte{pattern(251 * 1000), pattern(251 * 1000), pattern(251 * 2000)}
		check(t, a.SetWriteDeadline(time.Now().Add(time.Millisecond)))
		n, err := a.Writev(big)
		want(t, "late", err, os.ErrDeadlineExceeded)
		check(t, a.SetWriteDeadline(time.Time{}))
		same(t, receive(t, b, int(n)), pattern(251 * 4000)[:n])

		_, err = b.Write([]byte("lent"))
		check(t, err)
		noise, ear := pair(t, ctx, "unix")
		p, err := a.ReadBorrow()
		check(t, err)
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			n.Go(func(context.Context) error {
				_, err := a.Writev([][]byte{pattern(251 * 4000), p})
				a.CloseWrite()
				return err
			})
			waiting(t, ctx, 1, "Conn.Writev")
			noise.Write(make([]byte, 1000))
			ear.ReadBorrow()
			got, err := io.ReadAll(b)
			check(t, err)
			same(t, got, append(pattern(251*4000), "lent"...))
		})
		_, err = a.Writev(big)
		want(t, "after CloseWrite", err, syscall.EPIPE)
		a.Close()
		_, err = a.Writev(big)
		want(t, "after Close", err, net.ErrClosed)
	})
}
