package simkernel_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/simkernel"
)

// script makes random calls on a few connections of one host and records their results.
// The results do not depend on the sizes of buffers or the speed of the network, so a real
// kernel and the simulated one must return the same.
type script struct {
	k    *kernel.Kernel
	rand *rand.Rand
	fds  []int
	log  strings.Builder
}

func play(t *testing.T, k *kernel.Kernel, seed uint64, at kernel.Addr) string {
	t.Helper()
	s := &script{k: k, rand: rand.New(rand.NewPCG(seed, 0))}
	s.connect(t, at)
	for range 60 {
		s.step()
	}
	for _, fd := range s.fds {
		if fd >= 0 {
			k.Delete(fd)
			k.CloseFD(fd)
		}
	}
	return s.log.String()
}

// connect makes two connections and watches all ends, level-triggered.
func (s *script) connect(t *testing.T, at kernel.Addr) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	l, err := s.k.Socket(at.Family(), kernel.Stream)
	must(err)
	defer s.k.CloseFD(l)
	must(s.k.Bind(l, at))
	must(s.k.Listen(l, 4))
	at, err = s.k.LocalAddr(l)
	must(err)
	for range 2 {
		c, err := s.k.Socket(at.Family(), kernel.Stream)
		must(err)
		if err := s.k.Connect(c, at); err != nil && err != syscall.EINPROGRESS {
			t.Fatal(err)
		}
		must(s.k.Add(l, 100, kernel.Read, kernel.OneShot))
		var events [4]kernel.Event
		for n := 0; n == 0; {
			n, err = s.k.Wait(events[:], time.Second)
			must(err)
		}
		must(s.k.Delete(l))
		a, err := s.k.Accept(l)
		must(err)
		s.fds = append(s.fds, c, a)
	}
	for i, fd := range s.fds {
		if at.Family() != kernel.Unix {
			must(s.k.SetOption(fd, kernel.NoDelay, 1)) // Nagle's algorithm is not simulated
		}
		must(s.k.Add(fd, kernel.Token(i), kernel.Read|kernel.Write, kernel.Level))
	}
}

func (s *script) step() {
	i := s.rand.IntN(len(s.fds))
	fd := s.fds[i]
	buf := make([]byte, 1+s.rand.IntN(64))
	op := s.rand.IntN(14)
	if fd < 0 {
		return
	}
	switch op {
	case 0, 1, 2, 3:
		for j := range buf {
			buf[j] = 'a' + byte(s.rand.IntN(26))
		}
		n, err := s.k.Send(fd, buf)
		fmt.Fprintf(&s.log, "%d: send %q: %d %v\n", i, buf, n, err)
	case 4, 5, 6, 7:
		n, err := s.k.Recv(fd, buf)
		fmt.Fprintf(&s.log, "%d: recv %d: %q %v\n", i, len(buf), buf[:n], err)
	case 8:
		side := kernel.Side(1 + s.rand.IntN(3))
		fmt.Fprintf(&s.log, "%d: shutdown %d: %v\n", i, side, s.k.Shutdown(fd, side))
	case 9:
		if s.rand.IntN(3) == 0 {
			s.fds[i] = -1
			fmt.Fprintf(&s.log, "%d: close: %v %v\n", i, s.k.Delete(fd), s.k.CloseFD(fd))
		}
	case 10:
		v, err := s.k.Option(fd, kernel.SocketError)
		fmt.Fprintf(&s.log, "%d: error: %v %v\n", i, syscall.Errno(v), err)
	case 11:
		n, err := s.k.Sendv(fd, [][]byte{buf, nil, buf})
		fmt.Fprintf(&s.log, "%d: sendv %d: %d %v\n", i, len(buf), n, err)
	default:
		logReady(&s.log, s.k)
	}
	var events [8]kernel.Event
	s.k.Wait(events[:], 0) // lets the sent bytes arrive
}

// logReady records what is ready.
func logReady(log io.Writer, k *kernel.Kernel) {
	var events [8]kernel.Event
	n, err := k.Wait(events[:], 0)
	ready := map[kernel.Token]kernel.Ready{}
	for _, ev := range events[:n] {
		ready[ev.Token] = ev.Ready
	}
	fmt.Fprintf(log, "ready: %v %v\n", ready, err)
}

// TestUnixSocketsDoWhatRealOnesDo: within a host no bytes are in flight, so the results do
// not depend on timing.
func TestUnixSocketsDoWhatRealOnesDo(t *testing.T) {
	dir := t.TempDir()
	for seed := range uint64(300) {
		path := filepath.Join(dir, fmt.Sprint(seed))
		compare(t, seed, kernel.Addr{Path: path})
		os.Remove(path)
	}
}

func TestTCPDoesWhatTheRealOneDoes(t *testing.T) {
	for seed := range uint64(300) {
		compare(t, seed, kernel.Addr{AddrPort: netip.MustParseAddrPort("127.0.0.1:0")})
	}
}

func compare(t *testing.T, seed uint64, at kernel.Addr) {
	t.Helper()
	k, err := kernel.Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	sim := simkernel.New(seed).AddHost("host").NewProcess().Kernel()
	defer sim.Close()
	real, simulated := play(t, k, seed, at), play(t, sim, seed, at)
	if real != simulated {
		t.Fatalf("seed %d:\n%s", seed, diff(real, simulated))
	}
}

func diff(real, simulated string) string {
	r, s := strings.Split(real, "\n"), strings.Split(simulated, "\n")
	var b strings.Builder
	for i := range min(len(r), len(s)) {
		if r[i] != s[i] {
			fmt.Fprintf(&b, "real %s\nsim  %s\n", r[i], s[i])
			break
		}
		fmt.Fprintln(&b, r[i])
	}
	return b.String()
}
