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

	"github.com/spindleloop/spindle/examples/internal/trial"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// start runs the proxy until the test ends.
func start(t *testing.T, to string) (addr string, says *bufio.Reader) {
	t.Helper()
	s := trial.Start(t, func(ctx context.Context, out io.Writer) error { return run(ctx, "127.0.0.1:0", to, out) })
	return s.Addr(t), s.Says
}

// server serves what comes through the proxy: one connection.
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
			c.SetDeadline(time.Now().Add(trial.Patience))
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

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	return trial.Dial(t, "tcp", addr).(*net.TCPConn)
}

// The server answers when it has read the end of the question, so that the end
// must have come through while the other direction stays open.
func TestTheAnswerComesAfterTheEndOfTheQuestion(t *testing.T) {
	question := bytes.Repeat([]byte("who is there? "), 200_000)
	addr, _ := start(t, server(t, func(c *net.TCPConn) error {
		asked, err := io.ReadAll(c)
		if err != nil {
			return err
		}
		_, err = c.Write(bytes.ToUpper(asked))
		return err
	}))
	c := dial(t, addr)
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

func TestTheServerMayEndFirst(t *testing.T) {
	heard := make(chan string, 1)
	addr, _ := start(t, server(t, func(c *net.TCPConn) error {
		io.WriteString(c, "I say no more")
		if err := c.CloseWrite(); err != nil {
			return err
		}
		all, err := io.ReadAll(c)
		heard <- string(all)
		return err
	}))
	c := dial(t, addr)
	if said, err := io.ReadAll(c); err != nil || string(said) != "I say no more" {
		t.Fatalf("%q, %v", said, err)
	}
	io.WriteString(c, "but listen")
	c.CloseWrite()
	if got := <-heard; got != "but listen" {
		t.Errorf("the server heard %q", got)
	}
}

// A client that resets its connection takes that of the server with it.
func TestAClientThatBreaksOff(t *testing.T) {
	ended := make(chan error, 1)
	addr, says := start(t, server(t, func(c *net.TCPConn) error {
		io.WriteString(c, "hello")
		_, err := io.ReadAll(c)
		ended <- err
		return nil
	}))
	c := dial(t, addr)
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	c.SetLinger(0)
	c.Close()
	if line, err := says.ReadString('\n'); err != nil || !strings.Contains(line, "connection reset") {
		t.Errorf("it says %q, %v", line, err)
	}
	if err := <-ended; errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the server was not told")
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	const nobody = "127.0.0.1:1" // nobody is given that port by chance
	addr, says := start(t, nobody)
	for range 2 { // the proxy goes on
		c := dial(t, addr)
		if line, err := says.ReadString('\n'); err != nil || !strings.Contains(line, "refused") {
			t.Errorf("it says %q, %v", line, err)
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("the client reads %d bytes", n)
		}
	}
}
