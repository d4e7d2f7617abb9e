package ws_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

const clientsAddress = "SPINDLE_WS_CLIENTS_ADDRESS"

// TestCrowd is a process of clients; in the tests' own process it does nothing. It
// reads how many clients to run, connects that many, performs their handshakes,
// waits for the echo of one message each, and answers.
func TestCrowd(t *testing.T) {
	address := os.Getenv(clientsAddress)
	if address == "" {
		return
	}
	at := &syscall.SockaddrUnix{Name: address}
	hello := []byte(request("host", "/") + string(frame(fin|text, "hello", true)))
	var conns []int
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var want int
		fmt.Sscan(in.Text(), &want)
		first := len(conns)
		for len(conns) < want {
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
			if err == nil {
				err = syscall.Connect(fd, at)
			}
			if err == nil {
				_, err = syscall.Write(fd, hello)
			}
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, fd)
		}
		buf := make([]byte, 1000)
		for _, fd := range conns[first:] {
			for got := []byte(nil); !bytes.HasSuffix(got, []byte("hello")); {
				n, err := syscall.Read(fd, buf)
				if n <= 0 {
					t.Fatal(err)
				}
				got = append(got, buf[:n]...)
			}
		}
		fmt.Println("done", len(conns))
	}
	os.Exit(0) // closes all connections
}

// startClients starts that process. Grow sets the number of clients.
func startClients(t *testing.T, address string) (grow func(n int)) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrowd$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), clientsAddress+"="+address)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	lines := bufio.NewScanner(out)
	return func(n int) {
		t.Helper()
		fmt.Fprintln(in, n)
		for lines.Scan() {
			if strings.Contains(lines.Text(), fmt.Sprint("done ", n)) {
				return
			}
			t.Log(lines.Text())
		}
		t.Fatal("the client process has exited")
	}
}

// upgraded handles a request with callbacks that echo messages.
func upgraded(o ws.Options) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { ws.Upgrade(w, r, plainEcho{}, o) }
}

// accepted handles a request with a task that echoes messages.
func accepted(w http.ResponseWriter, r *http.Request) {
	c, err := ws.Accept(w, r, ws.Options{})
	if err != nil {
		return
	}
	defer c.CloseNow()
	for {
		kind, message, err := c.Read(r.Context())
		if err != nil || c.Write(r.Context(), kind, message) != nil {
			return
		}
	}
}

// TestIdleSocketsAreSmall measures WebSockets that have echoed a message and are idle, besides the system's
// memory: the connection, a timer if it pings, and for a task its stack.
func TestIdleSocketsAreSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: many connections")
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		most    float64
	}{
		{"plain", upgraded(ws.Options{}), 300},
		{"with pings and compression", upgraded(ws.Options{PingInterval: time.Hour, CompressFrom: 100}), 350},
		{"in a task", accepted, 15_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			low, high := 2000, 10_000
			var limit syscall.Rlimit
			if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
				t.Fatal(err)
			}
			if most := int(limit.Cur) - 200; high > most || short.UnderRace {
				low, high = 200, min(1000, most)
			}
			var sv *web.Service
			steady(t, func(l *loop.Loop) {
				s := &web.Server{Handler: web.Inline(c.handler)}
				var err error
				if sv, err = s.Listen(l, "unix", fmt.Sprintf("@spindle-ws-%d", os.Getpid())); err != nil {
					t.Fatal(err)
				}
			})
			t.Cleanup(func() { shut(sv) })
			grow := startClients(t, sv.Addr().String())
			grow(low)
			before := inUse()
			grow(high)
			each := float64(inUse()-before) / float64(high-low)
			t.Logf("%.0f bytes for each idle WebSocket", each)
			if each > c.most && high >= 10_000 {
				t.Errorf("%.0f bytes for each idle WebSocket, more than %.0f", each, c.most)
			}
		})
	}
}
