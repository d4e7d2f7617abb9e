package ws_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/ws"
)

// TestReaderAndWriter transfers a large message in fragments, in both directions,
// and skips the rest of one.
func TestReaderAndWriter(t *testing.T) {
	for name, o := range map[string]ws.Options{"plain": {MessageLimit: 8 << 20}, "compressing": {MessageLimit: 8 << 20, CompressFrom: 1}} {
		t.Run(name, func(t *testing.T) {
			pair(t, o, func(ctx context.Context, client, server *ws.Conn) error {
				message := []byte(large(1 << 20))
				return both(ctx, func(ctx context.Context) error {
					w, err := client.Writer(ctx, ws.Text)
					if err != nil {
						return err
					}
					if err := client.Write(ctx, ws.Text, nil); err != ws.ErrBusy {
						return fmt.Errorf("Write beside a Writer: %w", err)
					}
					if _, err := io.Copy(w, bytes.NewReader(message)); err != nil {
						return err
					}
					if err := w.Close(); err != nil {
						return err
					}
					if _, err := w.Write([]byte("x")); err == nil || w.Close() == nil {
						return errors.New("a closed Writer accepted a Write")
					}
					for range 3 {
						if err := client.Write(ctx, ws.Text, message); err != nil {
							return err
						}
					}
					return client.Write(ctx, ws.Binary, []byte("last"))
				}, func(ctx context.Context) error {
					for range 2 {
						kind, r, err := server.Reader(ctx)
						if err != nil || kind != ws.Text {
							return fmt.Errorf("%v: %w", kind, err)
						}
						if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, message) {
							return fmt.Errorf("%d bytes: %w", len(got), err)
						}
					}
					_, skipped, err := server.Reader(ctx)
					if err != nil {
						return err
					}
					if _, err := io.ReadFull(skipped, make([]byte, 100)); err != nil {
						return err
					}
					if _, err := io.ReadAll(io.LimitReader(skipped, 1<<19)); err != nil {
						return err
					}
					if _, got, err := server.Read(ctx); err != nil || !bytes.Equal(got, message) {
						return fmt.Errorf("after a part: %d bytes: %w", len(got), err)
					}
					if _, err := io.Copy(io.Discard, skipped); err == nil {
						return errors.New("a skipped message can be read")
					}
					if kind, got, err := server.Read(ctx); kind != ws.Binary || string(got) != "last" {
						return fmt.Errorf("%v %q: %w", kind, got, err)
					}
					return nil
				})
			})
		})
	}
}

// TestReaderOfABomb checks that the limit applies to the inflated bytes of a Reader.
func TestReaderOfABomb(t *testing.T) {
	ended := make(chan error, 1)
	address := make(chan string, 1)
	inTask(t, func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		address <- ln.Addr().String()
		for range 2 {
			nc, err := ln.AcceptConn()
			if err != nil {
				return err
			}
			c, err := ws.AcceptOn(nc, packing)
			if err != nil {
				return err
			}
			_, r, err := c.Reader(ctx)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, r)
			ended <- err
		}
		return ln.Close()
	})
	at := <-address
	for what, want := range map[string]int{pack(string(make([]byte, 16<<20))): 1009, "\xff\xff\xff": 1007} {
		p := join(t, at, packing)
		p.ended = ended
		p.send(p.frame(fin|rsv1|binry, what))
		p.wantsFault(want)
	}
}

// TestTwoReaders checks that the second reader gets ErrBusy.
func TestTwoReaders(t *testing.T) {
	pair(t, ws.Options{}, func(ctx context.Context, client, server *ws.Conn) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				_, _, err := server.Read(ctx)
				return err
			})
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			if _, _, err := server.Read(ctx); err != ws.ErrBusy {
				t.Errorf("Read: %v", err)
			}
			if _, _, err := server.Reader(ctx); err != ws.ErrBusy {
				t.Errorf("Reader: %v", err)
			}
			return client.Write(ctx, ws.Text, []byte("x"))
		})
	})
}

// TestManyWriters checks that messages and pings of several tasks do not mix.
func TestManyWriters(t *testing.T) {
	pair(t, ws.Options{ControlLimit: 1 << 20}, func(ctx context.Context, client, server *ws.Conn) error {
		const writers, each = 8, 50
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for i := range writers {
				n.Go(func(ctx context.Context) error {
					for range each {
						if err := server.Write(ctx, ws.Text, []byte(strings.Repeat(fmt.Sprint(i), 20_000))); err != nil {
							return err
						}
						if err := ws.WritePing(ctx, server); err != nil {
							return err
						}
					}
					return nil
				})
			}
			for range writers * each {
				_, message, err := client.Read(ctx)
				if err != nil {
					return err
				}
				if len(message) != 20_000 || strings.Count(string(message), string(message[:1])) != 20_000 {
					return fmt.Errorf("%d bytes of %q", len(message), message[:1])
				}
			}
			return nil
		})
	})
}
