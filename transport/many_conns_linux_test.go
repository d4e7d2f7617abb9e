package transport_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// clientProcess is a process of clients. Both ends in one process would need twice the
// descriptors.
type clientProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

const clientsAddress = "SPINDLE_CLIENTS_ADDRESS"

// TestClientProcess is the main function of a clientProcess; in the test process it does
// nothing. It reads the number of connections to have, connects until it has that many,
// echoes one byte on each, and replies.
func TestClientProcess(t *testing.T) {
	address := os.Getenv(clientsAddress)
	if address == "" {
		return
	}
	at := &syscall.SockaddrUnix{Name: address}
	var conns []int
	buf := make([]byte, 1)
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
				_, err = syscall.Write(fd, []byte("x"))
			}
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, fd)
		}
		for _, fd := range conns[first:] {
			if n, err := syscall.Read(fd, buf); n != 1 {
				t.Fatal(err)
			}
		}
		fmt.Println("done", len(conns))
	}
	os.Exit(0) // closes all connections
}

func startClientProcess(t *testing.T, address string) *clientProcess {
	t.Helper()
	return startClients(t, "TestClientProcess", address)
}

// startClients runs a test function as a clientProcess.
func startClients(t *testing.T, test, address string) *clientProcess {
	t.Helper()
	c := &clientProcess{cmd: exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.timeout=60s")}
	c.cmd.Env = append(os.Environ(), clientsAddress+"="+address)
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.in, c.out = in, bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// grow increases the number of connections to n.
func (c *clientProcess) grow(t *testing.T, n int) {
	t.Helper()
	fmt.Fprintln(c.in, n)
	for c.out.Scan() {
		if strings.Contains(c.out.Text(), fmt.Sprint("done ", n)) {
			return
		}
		t.Log(c.out.Text())
	}
	t.Fatal("the client process has exited")
}

// leave ends the process, and so its connections.
func (c *clientProcess) leave(t *testing.T) {
	t.Helper()
	c.in.Close()
	if err := c.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// descriptorLimit returns how many descriptors a process may have.
func descriptorLimit(t *testing.T) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return int(limit.Cur)
}

// idleBytes is the most memory that an idle connection may take in user space.
const idleBytes = 150

// TestFifteenThousandConns: one loop serves all connections, an idle one takes little
// memory, the loop sleeps while all are idle, and each is lost once.
func TestFifteenThousandConns(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: many connections")
	}
	onPollers(t, func(t *testing.T, o loop.Options) {
		low, high := 5000, 15_000
		if o.Backend == "poll" || short.UnderRace { // every wait costs time for each connection
			low, high = 500, 1500
		}
		if limit := descriptorLimit(t) - 500; high > limit {
			t.Logf("only %d descriptors: %d connections", limit+500, limit)
			low, high = limit/3, limit
		}
		p := &connTally{}
		var s *transport.Server
		l := running(t, o, func(l *loop.Loop) {
			var err error
			if s, err = transport.Listen(l, "unix", abstract(), transport.Options{Protocol: func() transport.Protocol { return p }}); err != nil {
				t.Fatal(err)
			}
		})
		c := startClientProcess(t, s.Addr().String())
		c.grow(t, low)
		before := heapInUse()
		c.grow(t, high)
		each := float64(heapInUse()-before) / float64(high-low)
		t.Logf("%.0f bytes for each idle connection", each)
		if each > idleBytes && high >= 15_000 && !short.UnderRace {
			t.Errorf("%.0f bytes for each idle connection", each)
		}
		on(t, l, func() {
			if s.Conns() != high || p.made != high || p.lost != 0 {
				t.Errorf("%d connections, %d made, %d lost, of %d", s.Conns(), p.made, p.lost, high)
			}
		})
		wantIdle(t, l)
		c.leave(t)
		until.OnLoop(t, l, func() bool { return s.Conns() == 0 })
		on(t, l, func() {
			if p.made != high || p.lost != high || p.failed != 0 || l.Stats().FDs != 1 {
				t.Errorf("%+v of %d, %d watched", *p, high, l.Stats().FDs)
			}
		})
	})
}

// TestDescriptorLimit: a server at its descriptor limit serves the connections it has,
// and accepts the others when descriptors are free again.
func TestDescriptorLimit(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(0) // the lowest free number
	if err != nil {
		t.Fatal(err)
	}
	syscall.Close(fd)
	k, err := kernel.Open("")
	if err != nil {
		t.Fatal(err)
	}
	p, failures := &connTally{}, 0
	var s *transport.Server
	l := running(t, loop.Internal().WithKernel(loop.Options{}, k), func(l *loop.Loop) {
		if s, err = transport.Listen(l, "unix", abstract(), transport.Options{
			Protocol: func() transport.Protocol { return p },
			OnError:  func(err error) { failures++ },
		}); err != nil {
			t.Fatal(err)
		}
	})
	c := startClientProcess(t, s.Addr().String())
	c.grow(t, 10)
	limit := was
	limit.Cur = uint64(fd + 12)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(c.in, 60)
	until.OnLoop(t, l, func() bool { return failures > 0 })
	done := make(chan bool)
	on(t, l, func() {
		turns := l.Stats().Turns
		l.CallLater(200e6, func() { // longer than some accept retries
			if n := l.Stats().Turns - turns; n > 40 {
				t.Errorf("%d turns at the descriptor limit", n)
			}
			if failures != 1 {
				t.Errorf("OnError called %d times", failures)
			}
			close(done)
		})
	})
	<-done
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	c.grow(t, 60)
	c.leave(t)
	until.OnLoop(t, l, func() bool { return s.Conns() == 0 && p.lost == 60 })
}
