package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

// withNursery runs program in a nursery, on a loop of each backend.
func withNursery(t *testing.T, program func(t *testing.T, ctx context.Context, n *spindle.Nursery) error) {
	t.Helper()
	onReal(t, func(t *testing.T, ctx context.Context) {
		check(t, spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error { return program(t, ctx, n) }))
	})
}

func ExamplePipe() {
	spindle.Run(context.Background(), func(ctx context.Context) error {
		r, w, err := stream.Pipe(ctx)
		if err != nil {
			return err
		}
		defer r.Close()
		spindle.RootNursery(ctx).Go(func(context.Context) error {
			fmt.Fprintln(w, "hello")
			return w.Close()
		})
		text, err := io.ReadAll(r)
		fmt.Print(string(text))
		return err
	})
	// Output: hello
}

// TestPipeTransfersMoreThanItsBuffer makes both sides wait for each other many
// times.
func TestPipeTransfersMoreThanItsBuffer(t *testing.T) {
	withNursery(t, func(t *testing.T, ctx context.Context, n *spindle.Nursery) error {
		r, w, err := stream.Pipe(ctx)
		if err != nil {
			return err
		}
		defer r.Close()
		want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		n.Go(func(context.Context) error {
			if n, err := w.Write(want); n != len(want) || err != nil {
				t.Errorf("wrote %d, %v", n, err)
			}
			if err := w.CloseWrite(); err != nil { // the reader sees the end
				t.Error(err)
			}
			if _, err := w.Write(want); !errors.Is(err, net.ErrClosed) {
				t.Errorf("a write after the end: %v", err)
			}
			return w.Close()
		})
		got, err := io.ReadAll(r)
		if !bytes.Equal(got, want) {
			t.Errorf("read %d bytes, not what was written", len(got))
		}
		return err
	})
}

func TestPipeEndsAreOneWay(t *testing.T) {
	withNursery(t, func(t *testing.T, ctx context.Context, n *spindle.Nursery) error {
		r, w, err := stream.Pipe(ctx)
		if err != nil {
			return err
		}
		defer w.Close()
		if _, err := r.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write to the reading end: %v", err)
		}
		if n, err := w.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("read from the writing end: %d, %v", n, err)
		}
		if err := r.CloseWrite(); err != nil {
			t.Error(err)
		}
		r.Close()
		if _, err := w.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write without a reader: %v", err)
		}
		if r.LocalAddr().Network() != "pipe" {
			t.Errorf("address %v", r.LocalAddr())
		}
		return nil
	})
}

// TestPipeWriterFailsWhenReaderCloses closes the reader while the writer waits.
func TestPipeWriterFailsWhenReaderCloses(t *testing.T) {
	withNursery(t, func(t *testing.T, ctx context.Context, n *spindle.Nursery) error {
		r, w, err := stream.Pipe(ctx)
		if err != nil {
			return err
		}
		defer w.Close()
		n.Go(func(ctx context.Context) error {
			if _, err := io.ReadFull(r, make([]byte, 100_000)); err != nil {
				return err
			}
			return r.Close()
		})
		if _, err := w.Write(make([]byte, 4<<20)); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Write: %v", err)
		}
		return nil
	})
}

func TestWrapLeavesTheFileOpen(t *testing.T) {
	withNursery(t, func(t *testing.T, ctx context.Context, n *spindle.Nursery) error {
		fr, fw, err := os.Pipe()
		if err != nil {
			return err
		}
		r, err := stream.Wrap(ctx, fr)
		if err != nil {
			return err
		}
		w, err := stream.Wrap(ctx, fw)
		if err != nil {
			return err
		}
		if err := errors.Join(fr.Close(), fw.Close()); err != nil {
			t.Error(err)
		}
		n.Go(func(context.Context) error {
			fmt.Fprint(w, "through")
			return w.Close()
		})
		text, err := io.ReadAll(r)
		if string(text) != "through" {
			t.Errorf("read %q", text)
		}
		return errors.Join(err, r.Close())
	})
}

func TestWrapSocket(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	withNursery(t, func(t *testing.T, ctx context.Context, n *spindle.Nursery) error {
		theirs, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			return err
		}
		defer theirs.Close()
		peer, err := ln.Accept()
		if err != nil {
			return err
		}
		defer peer.Close()
		c, err := stream.Wrap(ctx, theirs.(*net.TCPConn))
		if err != nil {
			return err
		}
		defer c.Close()
		if c.RemoteAddr().String() != ln.Addr().String() {
			t.Errorf("peer %v", c.RemoteAddr())
		}
		fmt.Fprint(c, "hello")
		c.CloseWrite()
		text, err := spindle.Blocking(ctx, func() ([]byte, error) { return io.ReadAll(peer) })
		if string(text) != "hello" {
			t.Errorf("the peer reads %q", text)
		}
		return err
	})
}

func TestWrapUnsupportedFiles(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	closed, other, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	other.Close()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	alone := os.NewFile(uintptr(fd), "alone")
	defer alone.Close()
	withNursery(t, func(t *testing.T, ctx context.Context, n *spindle.Nursery) error {
		for _, c := range []struct {
			name string
			what syscall.Conn
			want error
		}{
			{"listener", ln.(*net.TCPListener), syscall.EPROTOTYPE},
			{"datagrams", udp.(*net.UDPConn), syscall.EPROTOTYPE},
			{"no peer", alone, syscall.ENOTCONN},
			{"file", file, errors.ErrUnsupported},
			{"closed", closed, net.ErrClosed},
		} {
			var op *net.OpError
			if _, err := stream.Wrap(ctx, c.what); !errors.Is(err, c.want) || !errors.As(err, &op) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		return nil
	})
}

// TestSimulatedRunHasNoDescriptors checks that a simulated run never touches the
// machine by accident.
func TestSimulatedRunHasNoDescriptors(t *testing.T) {
	f, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer w.Close()
	sim.Test(t, func(ctx context.Context) error {
		if _, err := stream.Wrap(ctx, f); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Wrap: %v", err)
		}
		if _, _, err := stream.Pipe(ctx); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Pipe: %v", err)
		}
		var unknown *net.DNSError
		if _, err := stream.LookupNetIP(ctx, "ip", "example.com"); !errors.As(err, &unknown) || !unknown.IsNotFound {
			t.Errorf("LookupNetIP: %v", err)
		}
		return nil
	})
}
