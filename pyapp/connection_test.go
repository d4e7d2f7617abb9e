package pyapp_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/pyapp"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/tracing"
)

// accept returns both ends of a connection: that of a client, and the accepted one.
func accept(t testing.TB, network string) (client, accepted net.Conn) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if client, err = net.Dial(network, ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if accepted, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, accepted
}

// serveConn serves a connection in the background. The result has the error.
func serveConn(t testing.TB, ctx context.Context, app *pyapp.App, conn net.Conn, target string) <-chan error {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- app.ServeConn(ctx, conn, target) }()
	return served
}

func TestServeConn(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			client, conn := accept(t, network)
			served := serveConn(t, t.Context(), app, conn, "protocols:Upper")
			if _, err := io.WriteString(client, "some text\n"); err != nil {
				t.Fatal(err)
			}
			if err := client.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(client)
			if want := "hello\nSOME TEXT\ngoodbye\n"; string(got) != want || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestServeConnWithWhatWasNotRead: the program reads a line, and Python the rest.
func TestServeConnWithWhatWasNotRead(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	client, conn := accept(t, "tcp")
	if _, err := io.WriteString(client, "echo\nrest"); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("echo\n"))
	if _, err := io.ReadFull(conn, line); err != nil {
		t.Fatal(err)
	}
	served := serveConn(t, t.Context(), app, conn, "protocols:Echo")
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(client); string(got) != "rest" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestOtherProcessesDoNotInheritConnections, which they would keep open.
func TestOtherProcessesDoNotInheritConnections(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	client, conn := accept(t, "tcp")
	served := serveConn(t, t.Context(), app, conn, "protocols:Inheritable")
	if got, err := io.ReadAll(client); string(got) != "False" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestServeConnInATask: the loop of the task goes on.
func TestServeConnInATask(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // more than the buffers of both sides hold
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				conn, err := ln.AcceptConn()
				if err != nil {
					return err
				}
				return app.ServeConn(ctx, conn, "protocols:Echo")
			})
			c, err := stream.Dial(ctx, "tcp", ln.Addr().String())
			if err != nil {
				return err
			}
			n.Go(func(context.Context) error {
				if _, err := c.Write(large); err != nil {
					return err
				}
				return c.CloseWrite()
			})
			got, err := io.ReadAll(c)
			if !bytes.Equal(got, large) {
				t.Errorf("%d bytes came back", len(got))
			}
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestProtocolCallsGo, and has the trace of ServeConn's context.
func TestProtocolCallsGo(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	pyapp.Handle(app, "answer", func(ctx context.Context, text string) ([]byte, error) {
		return []byte(fmt.Sprintf("%x %s", tracing.Of(ctx).ID, text)), nil
	})
	trace, err := tracing.Parse("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	if err != nil {
		t.Fatal(err)
	}
	client, conn := accept(t, "tcp")
	served := serveConn(t, tracing.With(t.Context(), trace), app, conn, "protocols:streams")
	io.WriteString(client, "one\ntwo\n")
	client.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(client)
	if want := "0123456789abcdef0123456789abcdef one\n0123456789abcdef0123456789abcdef two\n"; string(got) != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestServeConnFails(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	packet := func() (net.Conn, net.Conn) {
		conn, err := net.Dial("udp", "127.0.0.1:9")
		if err != nil {
			t.Fatal(err)
		}
		return nil, conn
	}
	tcp := func() (net.Conn, net.Conn) { return accept(t, "tcp") }
	for name, test := range map[string]struct {
		conns  func() (client, conn net.Conn)
		target string
		want   func(error) bool
	}{
		"TLS": {func() (net.Conn, net.Conn) {
			client, conn := accept(t, "tcp")
			return client, tls.Server(conn, &tls.Config{})
		}, "protocols:Echo", is(pyapp.ErrNoDescriptor)},
		"in memory": {net.Pipe, "protocols:Echo", is(pyapp.ErrNoDescriptor)},
		"closed": {func() (net.Conn, net.Conn) {
			client, conn := accept(t, "tcp")
			conn.Close()
			return client, conn
		}, "protocols:Echo", is(net.ErrClosed)},
		"datagrams":       {packet, "protocols:Echo", raised("ValueError")},
		"no module":       {tcp, "nothing:Echo", is(pyapp.ErrNoModule)},
		"no attribute":    {tcp, "protocols:Nothing", is(pyapp.ErrNoAttribute)},
		"no name":         {tcp, "protocols", is(pyapp.ErrNoAttribute)},
		"factory raises":  {tcp, "protocols:fails", raised("ValueError")},
		"not a protocol":  {tcp, "protocols:nothing", raised("TypeError")},
		"a partial":       {tcp, "protocols:partial", raised("TypeError")},
		"not UTF-8":       {tcp, "\xff:Echo", raised("UnicodeDecodeError")},
		"not an argument": {tcp, "functions:inner", raised("TypeError")},
	} {
		t.Run(name, func(t *testing.T) {
			client, conn := test.conns()
			err := app.ServeConn(t.Context(), conn, test.target)
			if !test.want(err) {
				t.Errorf("%v", err)
			}
			if failed := (*pyapp.Error)(nil); errors.As(err, &failed) && failed.Target != test.target {
				t.Error(failed.Target)
			}
			if client != nil { // it is closed
				if n, err := client.Read(make([]byte, 1)); n != 0 || err == nil {
					t.Error(n, err)
				}
			}
			if _, err := conn.Write([]byte("x")); err == nil {
				t.Error("the connection is open")
			}
		})
	}
}

func is(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }

func raised(class string) func(error) bool {
	return func(err error) bool {
		failed := (*pyapp.Error)(nil)
		return errors.As(err, &failed) && failed.Type == class
	}
}

// notes returns what protocols:Notes tells.
func notes(app *pyapp.App) *cosync.Inbox[string] {
	inbox := cosync.NewInbox[string](100)
	pyapp.Receive(app, "notes", inbox)
	return inbox
}

// expect waits for a note.
func expect(t *testing.T, inbox *cosync.Inbox[string], prefix string) {
	t.Helper()
	if text, err := inbox.Get(t.Context()); err != nil || !strings.HasPrefix(text, prefix) {
		t.Fatalf("%q, %v; not %q", text, err, prefix)
	}
}

// TestServeConnIsCancelled: the transport is aborted, and the protocol knows.
func TestServeConnIsCancelled(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	inbox := notes(app)
	client, conn := accept(t, "tcp")
	ctx, cancel := context.WithCancelCause(t.Context())
	served := serveConn(t, ctx, app, conn, "protocols:Notes")
	expect(t, inbox, "made")
	reason := errors.New("the test is over")
	cancel(reason)
	if err := <-served; !errors.Is(err, reason) {
		t.Error(err)
	}
	expect(t, inbox, "lost None")
	if n, err := client.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error(n, err)
	}
}

// TestWorkerOfAConnectionCrashes: the client notices, and the next connection has the next worker.
func TestWorkerOfAConnectionCrashes(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	client, conn := accept(t, "tcp")
	served := serveConn(t, t.Context(), app, conn, "protocols:Crash")
	io.WriteString(client, "x")
	if err := <-served; !errors.Is(err, pyapp.ErrCrashed) {
		t.Error(err)
	}
	if n, err := client.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error(n, err)
	}
	client, conn = accept(t, "tcp")
	served = serveConn(t, t.Context(), app, conn, "protocols:Upper")
	if line, err := bufio.NewReader(client).ReadString('\n'); line != "hello\n" || err != nil {
		t.Error(line, err)
	}
	client.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestShutdownWithConnections waits for them, and aborts those that take longer than it may.
func TestShutdownWithConnections(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	inbox := notes(app)
	_, conn := accept(t, "tcp")
	served := serveConn(t, t.Context(), app, conn, "protocols:Notes")
	expect(t, inbox, "made")
	ctx, cancel := context.WithCancel(t.Context())
	shut := make(chan error, 1)
	go func() { shut <- app.Shutdown(ctx) }()
	until.Holds(t, func() bool { return pyapp.Waits(app) > 0 })
	if n := pyapp.Active(app); n != 1 {
		t.Error(n, "connections are left")
	}
	cancel()
	if err := <-shut; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-served; !raised("asyncio.exceptions.CancelledError")(err) && !errors.Is(err, pyapp.ErrCrashed) {
		t.Error(err)
	}
	_, conn = accept(t, "tcp")
	if err := app.ServeConn(t.Context(), conn, "protocols:Notes"); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// TestConnectionsGoToTheWorkerWithTheFewest.
func TestConnectionsGoToTheWorkerWithTheFewest(t *testing.T) {
	app := prepare(t, &pyapp.App{Workers: 2})
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	inbox := notes(app)
	pids := map[string]int{}
	var all []<-chan error
	var clients []net.Conn
	for range 10 {
		client, conn := accept(t, "tcp")
		clients = append(clients, client)
		all = append(all, serveConn(t, t.Context(), app, conn, "protocols:Notes"))
		text, err := inbox.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pids[strings.Fields(text)[1]]++
	}
	for pid, n := range pids {
		if n != 5 {
			t.Error(pid, "has", n)
		}
	}
	for i := range clients {
		clients[i].Close()
		if err := <-all[i]; err != nil {
			t.Error(err)
		}
	}
}
