package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/stream"
)

// connecting runs a conversation with an echo server, or another one, as the command does.
func connecting(t *testing.T, addr string, s *conversation) error {
	t.Helper()
	return spindle.Run(t.Context(), func(ctx context.Context) error {
		c, err := stream.Dial(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		return s.talk(ctx, c)
	})
}

func TestConnectSendsLinesAndPrintsAnswers(t *testing.T) {
	addr := startEcho(t, "protocol", kernel.Backends()[0], 1)
	large := strings.Repeat("a line that is sent and comes back\n", short.Of(100_000)) + "and one without an end"
	for input, want := range map[string]string{
		"":               "",
		"hello\n":        "hello\n",
		"hello\nand bye": "hello\nand bye",
		large:            large,
	} {
		var out, errs bytes.Buffer
		err := connecting(t, addr, &conversation{in: bufio.NewReader(strings.NewReader(input)), out: &out, errs: &errs})
		if err != nil || out.String() != want || errs.Len() > 0 {
			t.Errorf("%d bytes: %d came back, %v; it says %q", len(input), out.Len(), err, errs.String())
		}
	}
}

func TestConnectEndsLinesWithCRLF(t *testing.T) {
	addr := startEcho(t, "protocol", kernel.Backends()[0], 1)
	var out bytes.Buffer
	s := &conversation{in: bufio.NewReader(strings.NewReader("GET /\r\nHost: x\n\n")), out: &out, errs: io.Discard, crlf: true}
	if err := connecting(t, addr, s); err != nil || out.String() != "GET /\r\nHost: x\r\n\r\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestConnectEndsWithThePeer: input that never comes does not hold the command.
func TestConnectEndsWithThePeer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if c, err := ln.Accept(); err == nil {
			io.WriteString(c, "bye\n")
			c.Close()
		}
	}()
	in, typing := io.Pipe()
	var out, errs bytes.Buffer
	err = connecting(t, ln.Addr().String(), &conversation{in: bufio.NewReader(in), out: &out, errs: &errs, terminal: true})
	typing.Close()
	if err != nil || out.String() != "bye\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	said := errs.String()
	for _, want := range []string{"connected to " + ln.Addr().String(), prompt, "the peer has closed the connection"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q: %q", want, said)
		}
	}
}

// TestConnectCommand runs the whole command, with standard input from a pipe.
func TestConnectCommand(t *testing.T) {
	for _, network := range []string{"tcp", "unix", "tls"} {
		t.Run(network, func(t *testing.T) {
			at, args := "127.0.0.1:0", []string{"connect", "--network", network}
			switch network {
			case "unix":
				at = t.TempDir() + "/socket"
			case "tls":
				args = append(args, "--insecure")
			}
			addr := startEchoAt(t, at, "--network", network)
			typed(t, "hello\n")
			got := run(t.Context(), append(args, addr)...)
			if got.code != 0 || got.out != "hello\n" || got.errs != "" {
				t.Errorf("%+v", got)
			}
		})
	}
	typed(t, "")
	if got := run(t.Context(), "connect", "--timeout", "5s", "127.0.0.1:1"); got.code != 2 || !strings.Contains(got.errs, "127.0.0.1:1") {
		t.Errorf("%+v", got)
	}
}

// typed replaces standard input until the test ends.
func typed(t *testing.T, text string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, text)
	w.Close()
	before := os.Stdin
	os.Stdin = r
	t.Cleanup(func() {
		os.Stdin = before
		r.Close()
	})
}
