package transporttest

import (
	"fmt"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

// faultyKernel is a kernel that injects a fault. It records which descriptors are open
// and which are watched.
type faultyKernel struct {
	kernel.Poller
	kernel.Sockets
	fault
	calls    map[site]int
	problems []string

	open       map[int]bool
	watched    map[int]watched
	unanswered map[int]bool // connects to unreachable
	reset      map[int]bool // connections reset by the peer
	work       []func()     // jobs of workers, run one at a time when the loop would block

	ownTime bool // the kernel has a virtual clock of its own; otherwise:

	now      time.Duration
	inFlight time.Duration // real time that bytes may take to arrive
}

type watched struct {
	tok  kernel.Token
	in   kernel.Interest
	mode kernel.Mode
}

func newFaultyKernel(s config) (*faultyKernel, *kernel.Kernel) {
	sys := &faultyKernel{
		Poller: s.k.Poller, Sockets: s.k.Sockets, fault: s.fault,
		calls: map[site]int{}, open: map[int]bool{}, watched: map[int]watched{}, unanswered: map[int]bool{}, reset: map[int]bool{},
	}
	k := *s.k
	k.Poller, k.Sockets, k.Resolver, k.Workers = sys, sys, resolver{}, sys
	if sys.ownTime = s.ownTime; !s.ownTime {
		k.Clock = sys
		if s.network == "tcp" {
			sys.inFlight = 200 * time.Microsecond
		}
	}
	return sys, &k
}

func (s *faultyKernel) problem(format string, args ...any) {
	if len(s.problems) < 8 {
		s.problems = append(s.problems, fmt.Sprintf(format, args...))
	}
}

// injects counts a call at a site and reports whether the fault occurs there.
func (s *faultyKernel) injects(p site) bool {
	s.calls[p]++
	n := s.calls[p]
	if p != s.site || s.at == 0 {
		return false
	}
	return n == s.at || n > s.at && n <= s.at+s.repeat
}

// fails returns the injected error of a call, or nil.
func (s *faultyKernel) fails(p site) error {
	if s.injects(p) {
		return s.err
	}
	return nil
}

func (s *faultyKernel) checkOpen(fd int, call string) {
	if !s.open[fd] {
		s.problem("%s of descriptor %d, which is not open", call, fd)
	}
}

// retrigger causes a new edge, because a shortened call left data or buffer space.
func (s *faultyKernel) retrigger(fd int) {
	if w, ok := s.watched[fd]; ok && !s.unanswered[fd] {
		if err := s.Poller.Modify(fd, w.tok, w.in, w.mode); err != nil {
			s.problem("modify: %v", err)
		}
	}
}

// Mono and Wall are a clock that advances only when the loop waits.
func (s *faultyKernel) Mono() time.Duration           { return s.now }
func (s *faultyKernel) Wall() time.Time               { return time.Unix(0, 0).Add(s.now) }
func (*faultyKernel) At(mono time.Duration) time.Time { return time.Unix(0, 0).Add(mono) }

// longTimeout is longer than any regular wait, so a loop that waits this long is stuck
// or waits for bytes in flight, which then get more real time to arrive.
const longTimeout = time.Minute

func (s *faultyKernel) Wait(events []kernel.Event, timeout time.Duration) (int, error) {
	if timeout == 0 {
		return s.Poller.Wait(events, 0)
	}
	if len(s.work) > 0 {
		work := s.work[0]
		s.work = s.work[1:]
		work()
		return s.Poller.Wait(events, 0)
	}
	if s.ownTime {
		return s.Poller.Wait(events, timeout)
	}
	inFlight := s.inFlight
	if timeout < 0 || timeout > longTimeout {
		inFlight *= 5000
	}
	n, err := s.Poller.Wait(events, inFlight)
	if n == 0 && timeout > 0 {
		s.now += timeout
	}
	return n, err
}

// Start queues the work, so that nothing depends on when goroutines run.
func (s *faultyKernel) Start(work func()) { s.work = append(s.work, work) }

// finishWork runs the jobs that are left when the loop is closed, as workers would.
func (s *faultyKernel) finishWork() {
	for len(s.work) > 0 {
		work := s.work[0]
		s.work = s.work[1:]
		work()
	}
}

func (s *faultyKernel) Add(fd int, tok kernel.Token, in kernel.Interest, mode kernel.Mode) error {
	s.checkOpen(fd, "watch")
	if err := s.fails(atAdd); err != nil {
		return err
	}
	if !s.unanswered[fd] {
		if err := s.Poller.Add(fd, tok, in, mode); err != nil {
			return err
		}
	}
	s.watched[fd] = watched{tok, in, mode}
	return nil
}

func (s *faultyKernel) Modify(fd int, tok kernel.Token, in kernel.Interest, mode kernel.Mode) error {
	s.checkOpen(fd, "watch")
	if err := s.fails(atModify); err != nil {
		return err
	}
	if err := s.Poller.Modify(fd, tok, in, mode); err != nil {
		return err
	}
	s.watched[fd] = watched{tok, in, mode}
	return nil
}

func (s *faultyKernel) Delete(fd int) error {
	s.checkOpen(fd, "unwatch")
	delete(s.watched, fd)
	if s.unanswered[fd] {
		return nil
	}
	return s.Poller.Delete(fd)
}

func (s *faultyKernel) Socket(f kernel.Family, t kernel.Type) (int, error) {
	if err := s.fails(atSocket); err != nil {
		return -1, err
	}
	return s.recordOpen(s.Sockets.Socket(f, t))
}

func (s *faultyKernel) recordOpen(fd int, err error) (int, error) {
	if err == nil {
		s.open[fd] = true
	}
	return fd, err
}

func (s *faultyKernel) Accept(fd int) (int, error) {
	s.checkOpen(fd, "accept")
	if err := s.fails(atAccept); err != nil {
		return -1, err
	}
	return s.recordOpen(s.Sockets.Accept(fd))
}

func (s *faultyKernel) CloseFD(fd int) error {
	s.checkOpen(fd, "close")
	if _, ok := s.watched[fd]; ok {
		s.problem("descriptor %d is closed while it is watched", fd)
	}
	delete(s.open, fd)
	delete(s.unanswered, fd)
	delete(s.reset, fd)
	return s.Sockets.CloseFD(fd)
}

func (s *faultyKernel) Bind(fd int, a kernel.Addr) error {
	s.checkOpen(fd, "bind")
	if err := s.fails(atBind); err != nil {
		return err
	}
	return s.Sockets.Bind(fd, a)
}

func (s *faultyKernel) Listen(fd, backlog int) error {
	if err := s.fails(atListen); err != nil {
		return err
	}
	return s.Sockets.Listen(fd, backlog)
}

func (s *faultyKernel) Connect(fd int, a kernel.Addr) error {
	s.checkOpen(fd, "connect")
	if err := s.fails(atConnect); err != nil {
		return err
	}
	if a.Addr() == unreachable {
		s.unanswered[fd] = true
		return syscall.EINPROGRESS
	}
	return s.Sockets.Connect(fd, a)
}

func (s *faultyKernel) Recv(fd int, p []byte) (int, error) {
	s.checkOpen(fd, "recv")
	if s.injects(atRecv) {
		if s.short {
			defer s.retrigger(fd)
			return s.Sockets.Recv(fd, p[:1])
		}
		if s.err == syscall.EAGAIN {
			s.retrigger(fd)
		}
		return 0, s.err
	}
	n, err := s.Sockets.Recv(fd, p)
	if n == 0 && err == nil && s.reset[fd] {
		return 0, syscall.ECONNRESET
	}
	return n, err
}

func (s *faultyKernel) Send(fd int, p []byte) (int, error) {
	s.checkOpen(fd, "send")
	if s.injects(atSend) {
		if s.short && len(p) > 0 {
			defer s.retrigger(fd)
			return s.Sockets.Send(fd, p[:1])
		}
		if s.err == syscall.EAGAIN {
			s.retrigger(fd)
		}
		return 0, s.err
	}
	return s.Sockets.Send(fd, p)
}

func (s *faultyKernel) Sendv(fd int, bufs [][]byte) (int, error) {
	s.checkOpen(fd, "sendv")
	if len(bufs) > 1024 {
		s.problem("%d buffers at once", len(bufs))
	}
	if s.injects(atSendv) {
		if s.short {
			for _, p := range bufs {
				if len(p) > 0 {
					defer s.retrigger(fd)
					return s.Sockets.Send(fd, p[:1])
				}
			}
		}
		if s.err == syscall.EAGAIN {
			s.retrigger(fd)
		}
		return -1, s.err
	}
	return s.Sockets.Sendv(fd, bufs)
}

func (s *faultyKernel) Shutdown(fd int, side kernel.Side) error {
	s.checkOpen(fd, "shutdown")
	if err := s.fails(atShutdown); err != nil { // fails only after a reset, so a read must fail too
		s.reset[fd] = true
		s.Sockets.Shutdown(fd, kernel.BothSides)
		return err
	}
	return s.Sockets.Shutdown(fd, side)
}

func (s *faultyKernel) LocalAddr(fd int) (kernel.Addr, error) {
	s.checkOpen(fd, "address")
	if err := s.fails(atAddr); err != nil {
		return kernel.Addr{}, err
	}
	return s.Sockets.LocalAddr(fd)
}

func (s *faultyKernel) SetOption(fd int, o kernel.Option, value int) error {
	s.checkOpen(fd, "option")
	if err := s.fails(atSet); err != nil {
		return err
	}
	return s.Sockets.SetOption(fd, o, value)
}

func (s *faultyKernel) Option(fd int, o kernel.Option) (int, error) {
	s.checkOpen(fd, "option")
	if o == kernel.SocketError && s.injects(atOption) {
		return int(s.err), nil
	}
	return s.Sockets.Option(fd, o)
}
