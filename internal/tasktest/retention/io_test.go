package retention_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/files"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/proc"
	"github.com/spindleloop/spindle/stream"
)

// TestEndedIOKeepsNothing: neither the connections nor their tasks are kept once they were
// closed and have ended.
func TestEndedIOKeepsNothing(t *testing.T) {
	authority := tlstest.NewAuthority()
	server := stream.TLS{Config: &tls.Config{Certificates: []tls.Certificate{authority.Issue("localhost")}}}
	client := stream.TLS{Config: &tls.Config{RootCAs: authority.Pool(), ServerName: "localhost"}}
	dir := t.TempDir()
	checkAll(t, []operation{
		{"Pipe", func(ctx context.Context, w *watch) error {
			a, b, err := stream.Pipe(ctx)
			if err != nil {
				return err
			}
			return talk(ctx, w, follow(w, "connection", a), follow(w, "connection", b))
		}},
		{"Conn", func(ctx context.Context, w *watch) error {
			return connected(ctx, w, func(ctx context.Context, c *stream.Conn) error {
				defer c.Close()
				_, err := io.Copy(c, c)
				return err
			}, func(ctx context.Context, c *stream.Conn) error { return exchange(w, c) })
		}},
		{"Conn, cancelled", func(ctx context.Context, w *watch) error {
			return connected(ctx, w, func(ctx context.Context, c *stream.Conn) error {
				defer c.Close()
				return timedOut(ctx, w, func(ctx context.Context) error { _, err := c.Read(make([]byte, 1)); return err })
			}, func(ctx context.Context, c *stream.Conn) error { _, err := io.ReadAll(c); return err })
		}},
		{"TLSConn", func(ctx context.Context, w *watch) error {
			return connected(ctx, w, func(ctx context.Context, plain *stream.Conn) error {
				c := follow(w, "TLS connection", server.Server(plain))
				_, err := io.Copy(c, c)
				return errors.Join(err, c.Close())
			}, func(ctx context.Context, c *stream.Conn) error {
				return exchange(w, follow(w, "TLS connection", client.Client(c)))
			})
		}},
		{"PacketConn", func(ctx context.Context, w *watch) error {
			c, err := stream.ListenPacket(w.with(ctx), "udp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			defer follow(w, "connection", c).Close()
			_, err = c.WriteTo(w.load("data").data[:10], c.LocalAddr())
			if err == nil {
				_, _, err = c.ReadFrom(w.load("buffer").data[:])
			}
			return errors.Join(err, timedOut(ctx, w, func(ctx context.Context) error { _, err := c.Read(make([]byte, 1)); return err }))
		}},
		{"LookupNetIP", func(ctx context.Context, w *watch) error {
			_, err := stream.LookupNetIP(w.with(ctx), "ip", "localhost")
			return err
		}},
		{"files", func(ctx context.Context, w *watch) error {
			name := filepath.Join(dir, "data")
			err := files.WriteFile(w.with(ctx), name, w.load("data").data[:], 0o600)
			data, e := files.ReadFile(w.with(ctx), name)
			if len(data) > 0 {
				follow(w, "contents", &data[0])
			}
			return errors.Join(err, e)
		}},
		{"File", func(ctx context.Context, w *watch) error {
			f, err := files.Open(w.with(ctx), filepath.Join(dir, "data"))
			if err != nil {
				return err
			}
			_, err = follow(w, "file", f).Read(w.load("buffer").data[:])
			return errors.Join(err, f.Close())
		}},
		{"Cmd", func(ctx context.Context, w *watch) error {
			out, err := follow(w, "command", proc.Command("echo", "x")).Output(w.with(ctx))
			if len(out) != 2 {
				return errors.New("no output")
			}
			return err
		}},
	})
}

// talk sends a load from one connection to the other, and closes both.
func talk(ctx context.Context, w *watch, r io.ReadCloser, to io.WriteCloser) error {
	return together(ctx, w, func(context.Context) error {
		_, err := to.Write(w.load("data").data[:])
		return errors.Join(err, to.Close())
	}, func(context.Context) error {
		_, err := io.ReadFull(r, w.load("buffer").data[:])
		return errors.Join(err, r.Close())
	})
}

// exchange writes a load to a connection that echoes, and reads it.
func exchange(w *watch, c interface {
	io.ReadWriter
	CloseWrite() error
}) error {
	if _, err := c.Write(w.load("data").data[:]); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, w.load("buffer").data[:]); err != nil {
		return err
	}
	err := c.CloseWrite()
	_, e := io.ReadAll(c)
	return errors.Join(err, e)
}

// connected serves one connection, and uses its other end.
func connected(ctx context.Context, w *watch, serve, use func(context.Context, *stream.Conn) error) error {
	ln, err := stream.Listen(w.with(ctx), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(func(ctx context.Context) error {
			err := stream.Serve(w.with(ctx), ln, func(ctx context.Context, c *stream.Conn) error {
				follow(w, "scope", spindle.ScopeOf(ctx))
				return serve(ctx, follow(w, "connection", c))
			})
			if errors.Is(err, net.ErrClosed) {
				err = nil
			}
			return err
		})
		c, err := stream.Dial(w.with(ctx), "tcp", ln.Addr().String())
		if err != nil {
			return err
		}
		err = use(ctx, follow(w, "connection", c))
		return errors.Join(err, c.Close(), ln.Close())
	})
}
