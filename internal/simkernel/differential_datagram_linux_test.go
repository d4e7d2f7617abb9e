package simkernel_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/simkernel"
)

// datagramScript makes random calls on a few datagram sockets of one host and records their
// results. As in script, the results depend on neither sizes nor timing.
type datagramScript struct {
	k     *kernel.Kernel
	rand  *rand.Rand
	fds   []int
	addrs []kernel.Addr // zero for a socket without a name
	log   strings.Builder
	twice bool // the socket without a name has got the address of one that was closed
}

// playDatagrams makes the sockets and runs the script. The last socket has no name. It reports false if the system has given
// an address twice, so that the script cannot tell two sockets apart.
func playDatagrams(t *testing.T, k *kernel.Kernel, seed uint64, names []kernel.Addr) (log string, ok bool) {
	t.Helper()
	s := &datagramScript{k: k, rand: rand.New(rand.NewPCG(seed, 0))}
	family := names[0].Family()
	for i := range len(names) + 1 {
		fd, err := k.Socket(family, kernel.Datagram)
		if err != nil {
			t.Fatal(err)
		}
		var a kernel.Addr
		if i < len(names) {
			if err := k.Bind(fd, names[i]); err != nil {
				t.Fatal(err)
			}
			if a, err = k.LocalAddr(fd); err != nil {
				t.Fatal(err)
			}
		}
		if err := k.Add(fd, kernel.Token(i), kernel.Read|kernel.Write, kernel.Level); err != nil {
			t.Fatal(err)
		}
		s.fds, s.addrs = append(s.fds, fd), append(s.addrs, a)
	}
	for range 60 {
		s.step()
		if i := len(names); s.fds[i] >= 0 {
			a, err := k.LocalAddr(s.fds[i])
			s.twice = s.twice || err == nil && a.Port() != 0 && slices.ContainsFunc(s.addrs[:i], func(b kernel.Addr) bool { return a.Port() == b.Port() })
		}
	}
	for i := range s.fds {
		s.close(i)
	}
	return s.log.String(), !s.twice
}

// name returns the number of the socket that has an address.
func (s *datagramScript) name(a kernel.Addr) string {
	if a == (kernel.Addr{}) {
		return "none"
	}
	if i := slices.Index(s.addrs, a); i >= 0 {
		return fmt.Sprint(i)
	}
	if a.Family() == kernel.Unix {
		return a.Path
	}
	return a.Addr().String() + ":port"
}

func (s *datagramScript) close(i int) (err error) {
	if fd := s.fds[i]; fd >= 0 {
		s.fds[i] = -1
		err = errors.Join(s.k.Delete(fd), s.k.CloseFD(fd))
	}
	return err
}

func (s *datagramScript) step() {
	i, to := s.rand.IntN(len(s.fds)), s.rand.IntN(len(s.fds)-1)
	fd, data := s.fds[i], fmt.Appendf(nil, "%*d", s.rand.IntN(5), s.rand.IntN(100))
	size := s.rand.IntN(6)
	op := s.rand.IntN(13)
	if fd < 0 {
		return
	}
	switch op {
	case 0, 1, 2:
		n, err := s.k.SendTo(fd, data, s.addrs[to])
		fmt.Fprintf(&s.log, "%d: send %q to %d: %d %v\n", i, data, to, n, err)
	case 3, 4:
		n, err := s.k.SendTo(fd, data, kernel.Addr{})
		fmt.Fprintf(&s.log, "%d: send %q: %d %v\n", i, data, n, err)
	case 5, 6, 7, 8:
		p := make([]byte, size)
		n, from, truncated, err := s.k.RecvFrom(fd, p)
		fmt.Fprintf(&s.log, "%d: recv %d: %q from %s, %v, %v\n", i, size, p[:n], s.name(from), truncated, err)
	case 9:
		if s.rand.IntN(3) == 0 {
			fmt.Fprintf(&s.log, "%d: connect to %d: %v\n", i, to, s.k.Connect(fd, s.addrs[to]))
		}
	case 10:
		peer, err := s.k.PeerAddr(fd)
		fmt.Fprintf(&s.log, "%d: peer: %s %v\n", i, s.name(peer), err)
	case 11:
		if s.rand.IntN(4) == 0 {
			fmt.Fprintf(&s.log, "%d: close: %v\n", i, s.close(i))
		}
	default:
		logReady(&s.log, s.k)
	}
}

func TestUnixDatagramsDoWhatRealOnesDo(t *testing.T) {
	for seed := range uint64(300) {
		var names []kernel.Addr
		for i := range 3 {
			names = append(names, kernel.Addr{Path: fmt.Sprintf("@spindle-%d-%d-%d", os.Getpid(), seed, i)})
		}
		compareDatagrams(t, seed, names)
	}
}

func TestUDPDoesWhatTheRealOneDoes(t *testing.T) {
	local := kernel.Addr{AddrPort: netip.MustParseAddrPort("127.0.0.1:0")}
	for seed := range uint64(300) {
		compareDatagrams(t, seed, []kernel.Addr{local, local, local})
	}
}

func compareDatagrams(t *testing.T, seed uint64, names []kernel.Addr) {
	t.Helper()
	k, err := kernel.Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	sim := simkernel.New(seed).AddHost("host").NewProcess().Kernel()
	defer sim.Close()
	real, ok := playDatagrams(t, k, seed, names)
	simulated, _ := playDatagrams(t, sim, seed, names)
	if ok && real != simulated {
		t.Fatalf("seed %d:\n%s", seed, diff(real, simulated))
	}
}
