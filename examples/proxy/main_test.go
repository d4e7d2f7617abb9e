package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/examples/internal/servertest"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// start runs the proxy until the test ends.
func start(t *testing.T, to string) (addr string, output *bufio.Reader) {
	t.Helper()
	s := servertest.Start(t, func(ctx context.Context, out io.Writer) error { return run(ctx, "127.0.0.1:0", to, out) })
	return s.Addr(t), s.Output
}

// server listens behind the proxy and serves one connection.
func server(t *testing.T, serve func(c *net.TCPConn) error) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		c, err := ln.Accept()
		if err == nil {
			c.SetDeadline(time.Now().Add(servertest.Timeout))
			err = serve(c.(*net.TCPConn))
			c.Close()
		}
		served <- err
	}()
	t.Cleanup(func() {
		ln.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// TestTheServerMayAnswerAfterEOF has a server that answers after it has read EOF. The
// proxy must forward EOF and keep the other direction open.
func TestTheServerMayAnswerAfterEOF(t *testing.T) {
	question := bytes.Repeat([]byte("is this the server? "), 200_000)
	addr, _ := start(t, server(t, func(c *net.TCPConn) error {
		question, err := io.ReadAll(c)
		if err != nil {
			return err
		}
		_, err = c.Write(bytes.ToUpper(question))
		return err
	}))
	c := servertest.DialTCP(t, addr)
	if _, err := c.Write(question); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(answer, bytes.ToUpper(question)) {
		t.Errorf("%d bytes and %v came back; want %d", len(answer), err, len(question))
	}
}

func TestTheServerMayCloseFirst(t *testing.T) {
	received := make(chan string, 1)
	addr, _ := start(t, server(t, func(c *net.TCPConn) error {
		io.WriteString(c, "that is all")
		if err := c.CloseWrite(); err != nil {
			return err
		}
		all, err := io.ReadAll(c)
		received <- string(all)
		return err
	}))
	c := servertest.DialTCP(t, addr)
	if text, err := io.ReadAll(c); err != nil || string(text) != "that is all" {
		t.Fatalf("%q, %v", text, err)
	}
	io.WriteString(c, "more")
	c.CloseWrite()
	if got := <-received; got != "more" {
		t.Errorf("the server received %q", got)
	}
}

// TestAResetByTheClientClosesTheServersConnection has a client that resets its connection.
func TestAResetByTheClientClosesTheServersConnection(t *testing.T) {
	ended := make(chan error, 1)
	addr, output := start(t, server(t, func(c *net.TCPConn) error {
		io.WriteString(c, "hello")
		_, err := io.ReadAll(c)
		ended <- err
		return nil
	}))
	c := servertest.DialTCP(t, addr)
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	c.SetLinger(0)
	c.Close()
	if line, err := output.ReadString('\n'); err != nil || !strings.Contains(line, "connection reset") {
		t.Errorf("it prints %q, %v", line, err)
	}
	if err := <-ended; errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the server's connection stayed open")
	}
}

func TestAnUnreachableServer(t *testing.T) {
	const closed = "127.0.0.1:1" // the system never assigns this port
	addr, output := start(t, closed)
	for range 2 { // the proxy goes on
		c := servertest.DialTCP(t, addr)
		if line, err := output.ReadString('\n'); err != nil || !strings.Contains(line, "refused") {
			t.Errorf("it prints %q, %v", line, err)
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("the client reads %d bytes", n)
		}
	}
}
