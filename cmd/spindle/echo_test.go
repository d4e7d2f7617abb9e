package main

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
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/short"
)

// clientTimeout is how long a client waits before the test fails.
const clientTimeout = time.Minute

var listening = regexp.MustCompile(`^spindle echo: listening on (\S+) \((\w+), (\w+), (\d+ loops?)\)\n$`)

// startEcho runs the command until the test ends and returns its address. The command must
// end with exit code 0.
func startEcho(t *testing.T, model, backend string, loops int) string {
	t.Helper()
	return startEchoAt(t, "127.0.0.1:0", "--model", model, "--backend", backend, "--loops", fmt.Sprint(loops))
}

// startEchoAt is startEcho with other options.
func startEchoAt(t *testing.T, addr string, options ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	var errs bytes.Buffer
	exit := make(chan int, 1)
	go func() {
		code := execute(ctx, append([]string{"echo", "--addr", addr}, options...), w, &errs)
		w.Close()
		exit <- code
	}()
	t.Cleanup(func() {
		cancel()
		r.Close()
		if code := <-exit; code != 0 || errs.Len() > 0 {
			t.Errorf("exit code %d and on stderr %q; want 0 and nothing", code, errs.String())
		}
	})
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("no line on stdout: %v", err)
	}
	said := listening.FindStringSubmatch(line)
	if said == nil {
		t.Fatalf("the command prints %q", line)
	}
	return said[1]
}

// TestEchoPrintsOneLine checks the line that the command prints when it listens.
func TestEchoPrintsOneLine(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, []string{"echo", "--addr", "127.0.0.1:0", "--model", "coroutine", "--backend", "poll", "--loops", "2"}, w, io.Discard)
		w.Close()
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	said := listening.FindStringSubmatch(line)
	if said == nil || said[2] != "coroutine" || said[3] != "poll" || said[4] != "2 loops" {
		t.Errorf("the command prints %q, %v", line, err)
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestEcho(t *testing.T) {
	for model := range echoServers {
		for _, backend := range short.Backends() {
			for _, loops := range []int{1, 2} {
				if testing.Short() && loops == 1 {
					continue
				}
				t.Run(fmt.Sprintf("%s on %s with %d %s", model, backend, loops, plural(loops, "loop")), func(t *testing.T) {
					t.Parallel() // the last client waits
					addr := startEcho(t, model, backend, loops)
					t.Run("answers each message", func(t *testing.T) { answers(t, addr) })
					t.Run("ends when the client ends", func(t *testing.T) { echoAll(t, addr, nil) })
					t.Run("one byte", func(t *testing.T) { echoAll(t, addr, []byte{7}) })
					t.Run("megabytes", func(t *testing.T) { echoAll(t, addr, pattern(5<<20, 1)) })
					t.Run("many clients at once", func(t *testing.T) { manyClients(t, addr) })
					t.Run("a client that does not read", func(t *testing.T) { doesNotRead(t, addr) })
				})
			}
		}
	}
}

// pattern returns n bytes in which a lost or moved byte is noticed.
func pattern(n int, seed uint32) []byte {
	p := make([]byte, n)
	for i := range p {
		seed = seed*1664525 + 1013904223
		p[i] = byte(seed >> 24)
	}
	return p
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, clientTimeout)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(clientTimeout))
	return conn.(*net.TCPConn)
}

// roundTrip sends message, closes its sending direction, and reads until EOF.
func roundTrip(conn *net.TCPConn, message []byte) error {
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(message)
		sent <- errors.Join(err, conn.CloseWrite())
	}()
	got, err := io.ReadAll(conn)
	if err := errors.Join(err, <-sent); err != nil {
		return err
	}
	if !bytes.Equal(got, message) {
		return fmt.Errorf("%d bytes came back that differ from the %d sent", len(got), len(message))
	}
	return nil
}

func echoAll(t *testing.T, addr string, message []byte) {
	conn := dial(t, addr)
	defer conn.Close()
	if err := roundTrip(conn, message); err != nil {
		t.Error(err)
	}
}

func answers(t *testing.T, addr string) {
	conn := dial(t, addr)
	defer conn.Close()
	for i := range 100 {
		message := pattern(1+i*13, uint32(i))
		if _, err := conn.Write(message); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(message))
		if _, err := io.ReadFull(conn, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, message) {
			t.Fatalf("message %d came back changed", i)
		}
	}
	if err := roundTrip(conn, []byte("bye")); err != nil {
		t.Error(err)
	}
}

func manyClients(t *testing.T, addr string) {
	const clients = 100
	var conns [clients]*net.TCPConn
	for i := range conns { // all are open before the first one speaks
		conns[i] = dial(t, addr)
		defer conns[i].Close()
	}
	var all sync.WaitGroup
	for i, conn := range conns {
		all.Go(func() {
			if err := roundTrip(conn, pattern(40_000+i, uint32(i))); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	all.Wait()
}

// doesNotRead writes until the server takes no more: it must stop reading from a peer that it
// cannot write to. Then everything must come back.
func doesNotRead(t *testing.T, addr string) {
	conn := dial(t, addr)
	defer conn.Close()
	const limit = 512 << 20         // far beyond what sockets hold
	stuck := 150 * time.Millisecond // without progress
	if testing.Short() {
		stuck /= 5
	}
	message := pattern(1<<20, 3)
	taken := 0
	for {
		conn.SetWriteDeadline(time.Now().Add(stuck))
		n, err := conn.Write(message[taken%len(message):])
		taken += n
		if errors.Is(err, os.ErrDeadlineExceeded) && n == 0 {
			break
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		if taken > limit {
			t.Fatalf("the server took %d bytes from a client that reads none", taken)
		}
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != taken {
		t.Fatalf("%d of %d bytes came back", len(got), taken)
	}
	for at := 0; at < len(got); at += len(message) {
		part := got[at:min(at+len(message), len(got))]
		if !bytes.Equal(part, message[:len(part)]) {
			t.Fatalf("the bytes differ after byte %d", at)
		}
	}
}

// TestEchoOtherNetworks runs the command with udp, unix and tls.
func TestEchoOtherNetworks(t *testing.T) {
	for model, networks := range echoServers {
		for network := range networks {
			if network == "tcp" {
				continue
			}
			t.Run(model+" on "+network, func(t *testing.T) {
				at := "127.0.0.1:0"
				if network == "unix" {
					at = t.TempDir() + "/echo"
				}
				addr := startEchoAt(t, at, "--model", model, "--network", network)
				conn := dialNetwork(t, network, addr)
				defer conn.Close()
				for i := range 20 {
					message := pattern(1+i*50, uint32(i))
					if _, err := conn.Write(message); err != nil {
						t.Fatal(err)
					}
					got := make([]byte, len(message))
					if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, message) {
						t.Fatalf("message %d came back as %d bytes, %v", i, len(got), err)
					}
				}
			})
		}
	}
}

func dialNetwork(t *testing.T, network, addr string) (conn net.Conn) {
	t.Helper()
	var err error
	if network == "tls" {
		conn, err = tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	} else {
		conn, err = net.Dial(network, addr)
	}
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(clientTimeout))
	return conn
}

// TestEchoSurvivesReset checks that a reset ends only its own connection.
func TestEchoSurvivesReset(t *testing.T) {
	for model := range echoServers {
		for _, backend := range short.Backends() {
			t.Run(model+" on "+backend, func(t *testing.T) {
				addr := startEcho(t, model, backend, 1)
				gone := dial(t, addr)
				if _, err := gone.Write(pattern(100_000, 5)); err != nil {
					t.Fatal(err)
				}
				gone.SetLinger(0) // close with a reset
				gone.Close()
				echoAll(t, addr, []byte("still there?"))
			})
		}
	}
}
