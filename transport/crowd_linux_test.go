package transport_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// crowd is a process of clients: both ends in one would need twice the descriptors.
type crowd struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

const crowdAddress = "SPINDLE_CROWD_ADDRESS"

// TestCrowd is that process; in the tests' own it does nothing. It is told how many
// connections there shall be, connects that many, has one byte echoed by each, and
// answers.
func TestCrowd(t *testing.T) {
	address := os.Getenv(crowdAddress)
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
	os.Exit(0) // and with it all connections
}

func startCrowd(t *testing.T, address string) *crowd {
	t.Helper()
	return startClients(t, "TestCrowd", address)
}

// startClients runs a test that is a process of clients.
func startClients(t *testing.T, test, address string) *crowd {
	t.Helper()
	c := &crowd{cmd: exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.timeout=60s")}
	c.cmd.Env = append(os.Environ(), crowdAddress+"="+address)
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

// grow has the crowd be n.
func (c *crowd) grow(t *testing.T, n int) {
	t.Helper()
	fmt.Fprintln(c.in, n)
	for c.out.Scan() {
		if strings.Contains(c.out.Text(), fmt.Sprint("done ", n)) {
			return
		}
		t.Log(c.out.Text())
	}
	t.Fatal("the crowd is gone")
}

// leave ends the process, and with it its connections.
func (c *crowd) leave(t *testing.T) {
	t.Helper()
	c.in.Close()
	if err := c.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// descriptors is how many a process may have.
func descriptors(t *testing.T) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return int(limit.Cur)
}

// idleBytes is what an idle connection may cost a server, besides the system.
const idleBytes = 260

// TestFifteenThousandAtOnce: all are served by one loop, an idle one costs little,
// the loop sleeps meanwhile, and each is lost once.
func TestFifteenThousandAtOnce(t *testing.T) {
	onEvery(t, func(t *testing.T, o loop.Options) {
		low, high := 5000, 15_000
		if o.Backend == "poll" || underRace { // every wait costs as much as there are
			low, high = 500, 1500
		}
		if most := descriptors(t) - 500; high > most {
			t.Logf("only %d descriptors: %d connections", most+500, most)
			low, high = most/3, most
		}
		p := &tally{}
		var s *transport.Server
		l := steady(t, o, func(l *loop.Loop) {
			var err error
			if s, err = transport.Listen(l, "unix", abstract(), transport.Options{Protocol: func() transport.Protocol { return p }}); err != nil {
				t.Fatal(err)
			}
		})
		c := startCrowd(t, s.Addr().String())
		c.grow(t, low)
		before := inUse()
		c.grow(t, high)
		each := float64(inUse()-before) / float64(high-low)
		t.Logf("%.0f bytes for each idle connection", each)
		if each > idleBytes && high >= 15_000 && !underRace {
			t.Errorf("%.0f bytes for each idle connection", each)
		}
		on(t, l, func() {
			if s.Conns() != high || p.made != high || p.lost != 0 {
				t.Errorf("%d connections, %d made, %d lost, of %d", s.Conns(), p.made, p.lost, high)
			}
		})
		quiet(t, l)
		c.leave(t)
		until(t, l, func() bool { return s.Conns() == 0 })
		on(t, l, func() {
			if p.made != high || p.lost != high || p.failed != 0 || l.Stats().FDs != 1 {
				t.Errorf("%+v of %d, %d watched", *p, high, l.Stats().FDs)
			}
		})
	})
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// TestNoDescriptorsLeft: a process at its limit goes on serving those it has, and
// the others when there is room again.
func TestNoDescriptorsLeft(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(0) // the first number that is free
	if err != nil {
		t.Fatal(err)
	}
	syscall.Close(fd)
	k, err := kernel.Open("")
	if err != nil {
		t.Fatal(err)
	}
	p, told := &tally{}, 0
	var s *transport.Server
	l := steady(t, loop.Options{Kernel: k}, func(l *loop.Loop) {
		if s, err = transport.Listen(l, "unix", abstract(), transport.Options{
			Protocol: func() transport.Protocol { return p },
			OnError:  func(err error) { told++ },
		}); err != nil {
			t.Fatal(err)
		}
	})
	c := startCrowd(t, s.Addr().String())
	c.grow(t, 10)
	limit := was
	limit.Cur = uint64(fd + 12)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(c.in, 60)
	until(t, l, func() bool { return told > 0 })
	done := make(chan bool)
	on(t, l, func() {
		turns := l.Stats().Turns
		l.CallLater(200e6, func() { // some rests
			if n := l.Stats().Turns - turns; n > 40 {
				t.Errorf("%d turns at the limit", n)
			}
			if told != 1 {
				t.Errorf("told %d times", told)
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
	until(t, l, func() bool { return s.Conns() == 0 && p.lost == 60 })
}
