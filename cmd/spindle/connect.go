package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

const connectHelp = `
spindle connect [flags] HOST:PORT sends the lines that you type, and prints what comes back.

  spindle connect 127.0.0.1:9000             talks to spindle echo
  spindle connect --network unix /tmp/e      a Unix socket
  spindle connect --network tls --insecure 127.0.0.1:9000
  echo hello | spindle connect localhost:9000
  spindle connect --crlf example.com:80      for protocols such as HTTP and SMTP

Ctrl-D ends the sending direction, and the command ends when the peer has closed its own.
Ctrl-C ends it at once.
`

func runConnect(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("connect", flag.ContinueOnError)
	network := flags.String("network", "tcp", "`NETWORK` to use: tcp, unix or tls")
	insecure := flags.Bool("insecure", false, "accept any certificate, with --network tls")
	crlf := flags.Bool("crlf", false, "send CR LF at the end of each line")
	timeout := flags.Duration("timeout", 10*time.Second, "`TIME` for the peer to accept the connection")
	if err := parse(flags, connectHelp, args, out); err != nil {
		return err
	}
	switch {
	case flags.NArg() != 1:
		return fmt.Errorf("got %d arguments, want HOST:PORT; see 'spindle connect --help'", flags.NArg())
	case *network != "tcp" && *network != "unix" && *network != "tls":
		return fmt.Errorf("unknown network %q (have tcp, unix, tls)", *network)
	case *insecure && *network != "tls":
		return errors.New("--insecure: only for --network tls")
	}
	s := &conversation{in: bufio.NewReader(os.Stdin), out: out, errs: errs, crlf: *crlf, terminal: isTerminal(os.Stdin)}
	err := spindle.Run(ctx, func(ctx context.Context) error {
		c, err := dialPeer(ctx, *network, flags.Arg(0), *timeout, *insecure)
		if err != nil {
			return err
		}
		defer c.Close()
		return s.talk(ctx, c)
	})
	if ctx.Err() != nil {
		return nil // interrupted
	}
	return err
}

// halfCloser is a connection with a sending direction that can be ended alone.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

func dialPeer(ctx context.Context, network, address string, timeout time.Duration, insecure bool) (c halfCloser, err error) {
	err = spindle.FailAfter(ctx, timeout, func(ctx context.Context) error {
		if network == "tls" {
			c, err = stream.TLS{Config: &tls.Config{InsecureSkipVerify: insecure}}.Dial(ctx, "tcp", address)
		} else {
			c, err = stream.Dial(ctx, network, address)
		}
		return err
	})
	return c, err
}

// conversation is what standard input and a connection say to each other. Only its tasks use it.
type conversation struct {
	in       *bufio.Reader
	out      io.Writer
	errs     io.Writer
	crlf     bool
	terminal bool // input is typed: there is a prompt
	ended    bool // no input follows
}

const prompt = ">> "

// talk sends the input and prints the answers, until the peer has ended.
func (s *conversation) talk(ctx context.Context, c halfCloser) error {
	s.tell("connected to %v; Ctrl-D ends", c.RemoteAddr())
	s.prompt()
	err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		defer n.Scope().Cancel(nil) // the input is not waited for
		n.Go(func(ctx context.Context) error { return s.send(ctx, c) })
		return s.print(c)
	})
	if err == nil && !s.ended {
		s.tell("\nthe peer has closed the connection")
	}
	return err
}

// tell writes a line for the person at the terminal.
func (s *conversation) tell(format string, args ...any) {
	if s.terminal {
		fmt.Fprintf(s.errs, format+"\n", args...)
	}
}

func (s *conversation) prompt() {
	if s.terminal && !s.ended {
		io.WriteString(s.errs, prompt)
	}
}

// send sends lines until the input ends. A read of the input blocks a worker, and is left alone when the
// connection has ended.
func (s *conversation) send(ctx context.Context, c halfCloser) error {
	for {
		line, err := spindle.Abandon(ctx, func() (string, error) { return s.in.ReadString('\n') })
		if s.crlf && strings.HasSuffix(line, "\n") {
			line = strings.TrimRight(line, "\r\n") + "\r\n"
		}
		if line != "" {
			if _, err := io.WriteString(c, line); err != nil {
				return err
			}
			s.prompt()
		}
		if errors.Is(err, io.EOF) {
			s.ended = true
			return c.CloseWrite()
		}
		if err != nil {
			return err
		}
	}
}

// clearLine removes the prompt from a terminal's line.
const clearLine = "\r\x1b[K"

// print prints what the peer sends. On a terminal the prompt follows whole lines.
func (s *conversation) print(c net.Conn) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := c.Read(buf)
		if n > 0 {
			if s.terminal {
				io.WriteString(s.errs, clearLine)
			}
			if _, err := s.out.Write(buf[:n]); err != nil {
				return err
			}
			if bytes.HasSuffix(buf[:n], []byte("\n")) {
				s.prompt()
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
