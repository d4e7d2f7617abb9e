package transporttest

import (
	"fmt"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

// system is a kernel that makes trouble, and that keeps the books: which
// descriptors are open, and which are watched.
type system struct {
	kernel.Poller
	kernel.Sockets
	trouble
	seen  map[place]int
	wrong []string

	open    map[int]bool
	watched map[int]watched
	silent  map[int]bool // connects that nobody answers
	reset   map[int]bool // connections whose peer is gone
	work    []func()     // for workers, done one by one when all else waits

	ownTime bool // the kernel has a virtual clock of its own; otherwise:

	now      time.Duration
	inFlight time.Duration // how long bytes may be under way in reality
}

type watched struct {
	tok  kernel.Token
	in   kernel.Interest
	mode kernel.Mode
}

func newSystem(s setting) (*system, *kernel.Kernel) {
	sys := &system{
		Poller: s.k.Poller, Sockets: s.k.Sockets, trouble: s.trouble,
		seen: map[place]int{}, open: map[int]bool{}, watched: map[int]watched{}, silent: map[int]bool{}, reset: map[int]bool{},
	}
	k := *s.k
	k.Poller, k.Sockets, k.Resolver, k.Workers = sys, sys, names{}, sys
	if sys.ownTime = s.ownTime; !s.ownTime {
		k.Clock = sys
		if s.network == "tcp" {
			sys.inFlight = 200 * time.Microsecond
		}
	}
	return sys, &k
}

func (s *system) complain(format string, args ...any) {
	if len(s.wrong) < 8 {
		s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
	}
}

// comes counts a place and tells whether it is the one where trouble comes.
func (s *system) comes(p place) bool {
	s.seen[p]++
	n := s.seen[p]
	if p != s.place || s.at == 0 {
		return false
	}
	return n == s.at || n > s.at && n <= s.at+s.spell
}

// fails is comes for calls that can only fail.
func (s *system) fails(p place) error {
	if s.comes(p) {
		return s.err
	}
	return nil
}

func (s *system) known(fd int, call string) {
	if !s.open[fd] {
		s.complain("%s of descriptor %d, which is not open", call, fd)
	}
}

// again is a new edge: what was not read or written is still there.
func (s *system) again(fd int) {
	if w, ok := s.watched[fd]; ok && !s.silent[fd] {
		if err := s.Poller.Modify(fd, w.tok, w.in, w.mode); err != nil {
			s.complain("modify: %v", err)
		}
	}
}

// Mono and Wall are a clock that stands still while anything happens.
func (s *system) Mono() time.Duration           { return s.now }
func (s *system) Wall() time.Time               { return time.Unix(0, 0).Add(s.now) }
func (*system) At(mono time.Duration) time.Time { return time.Unix(0, 0).Add(mono) }

// longWait is so long that nobody waits for it but who is stuck: what is under way
// in reality gets more time to arrive.
const longWait = time.Minute

func (s *system) Wait(events []kernel.Event, timeout time.Duration) (int, error) {
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
	if timeout < 0 || timeout > longWait {
		inFlight *= 5000
	}
	n, err := s.Poller.Wait(events, inFlight)
	if n == 0 && timeout > 0 {
		s.now += timeout
	}
	return n, err
}

// Start keeps the work for later: nothing here depends on when goroutines run.
func (s *system) Start(work func()) { s.work = append(s.work, work) }

// finishWork does what is left when the loop is closed, as workers would.
func (s *system) finishWork() {
	for len(s.work) > 0 {
		work := s.work[0]
		s.work = s.work[1:]
		work()
	}
}

func (s *system) Add(fd int, tok kernel.Token, in kernel.Interest, mode kernel.Mode) error {
	s.known(fd, "watch")
	if err := s.fails(atAdd); err != nil {
		return err
	}
	if !s.silent[fd] {
		if err := s.Poller.Add(fd, tok, in, mode); err != nil {
			return err
		}
	}
	s.watched[fd] = watched{tok, in, mode}
	return nil
}

func (s *system) Modify(fd int, tok kernel.Token, in kernel.Interest, mode kernel.Mode) error {
	s.known(fd, "watch")
	if err := s.fails(atModify); err != nil {
		return err
	}
	if err := s.Poller.Modify(fd, tok, in, mode); err != nil {
		return err
	}
	s.watched[fd] = watched{tok, in, mode}
	return nil
}

func (s *system) Delete(fd int) error {
	s.known(fd, "unwatch")
	delete(s.watched, fd)
	if s.silent[fd] {
		return nil
	}
	return s.Poller.Delete(fd)
}

func (s *system) Socket(f kernel.Family, t kernel.Type) (int, error) {
	if err := s.fails(atSocket); err != nil {
		return -1, err
	}
	return s.opened(s.Sockets.Socket(f, t))
}

func (s *system) opened(fd int, err error) (int, error) {
	if err == nil {
		s.open[fd] = true
	}
	return fd, err
}

func (s *system) Accept(fd int) (int, error) {
	s.known(fd, "accept")
	if err := s.fails(atAccept); err != nil {
		return -1, err
	}
	return s.opened(s.Sockets.Accept(fd))
}

func (s *system) CloseFD(fd int) error {
	s.known(fd, "close")
	if _, ok := s.watched[fd]; ok {
		s.complain("descriptor %d is closed while it is watched", fd)
	}
	delete(s.open, fd)
	delete(s.silent, fd)
	delete(s.reset, fd)
	return s.Sockets.CloseFD(fd)
}

func (s *system) Bind(fd int, a kernel.Addr) error {
	s.known(fd, "bind")
	if err := s.fails(atBind); err != nil {
		return err
	}
	return s.Sockets.Bind(fd, a)
}

func (s *system) Listen(fd, backlog int) error {
	if err := s.fails(atListen); err != nil {
		return err
	}
	return s.Sockets.Listen(fd, backlog)
}

func (s *system) Connect(fd int, a kernel.Addr) error {
	s.known(fd, "connect")
	if err := s.fails(atConnect); err != nil {
		return err
	}
	if a.Addr() == nowhere {
		s.silent[fd] = true
		return syscall.EINPROGRESS
	}
	return s.Sockets.Connect(fd, a)
}

func (s *system) Recv(fd int, p []byte) (int, error) {
	s.known(fd, "recv")
	if s.comes(atRecv) {
		if s.short {
			defer s.again(fd)
			return s.Sockets.Recv(fd, p[:1])
		}
		if s.err == syscall.EAGAIN {
			s.again(fd)
		}
		return 0, s.err
	}
	n, err := s.Sockets.Recv(fd, p)
	if n == 0 && err == nil && s.reset[fd] {
		return 0, syscall.ECONNRESET
	}
	return n, err
}

func (s *system) Send(fd int, p []byte) (int, error) {
	s.known(fd, "send")
	if s.comes(atSend) {
		if s.short && len(p) > 0 {
			defer s.again(fd)
			return s.Sockets.Send(fd, p[:1])
		}
		if s.err == syscall.EAGAIN {
			s.again(fd)
		}
		return 0, s.err
	}
	return s.Sockets.Send(fd, p)
}

func (s *system) Sendv(fd int, bufs [][]byte) (int, error) {
	s.known(fd, "sendv")
	if len(bufs) > 1024 {
		s.complain("%d buffers at once", len(bufs))
	}
	if s.comes(atSendv) {
		if s.short {
			for _, p := range bufs {
				if len(p) > 0 {
					defer s.again(fd)
					return s.Sockets.Send(fd, p[:1])
				}
			}
		}
		if s.err == syscall.EAGAIN {
			s.again(fd)
		}
		return -1, s.err
	}
	return s.Sockets.Sendv(fd, bufs)
}

func (s *system) Shutdown(fd int, side kernel.Side) error {
	s.known(fd, "shutdown")
	if err := s.fails(atShutdown); err != nil { // only after a reset, which a read tells of
		s.reset[fd] = true
		s.Sockets.Shutdown(fd, kernel.BothSides)
		return err
	}
	return s.Sockets.Shutdown(fd, side)
}

func (s *system) LocalAddr(fd int) (kernel.Addr, error) {
	s.known(fd, "address")
	if err := s.fails(atAddr); err != nil {
		return kernel.Addr{}, err
	}
	return s.Sockets.LocalAddr(fd)
}

func (s *system) SetOption(fd int, o kernel.Option, value int) error {
	s.known(fd, "option")
	if err := s.fails(atSet); err != nil {
		return err
	}
	return s.Sockets.SetOption(fd, o, value)
}

func (s *system) Option(fd int, o kernel.Option) (int, error) {
	s.known(fd, "option")
	if o == kernel.SocketError && s.comes(atOption) {
		return int(s.err), nil
	}
	return s.Sockets.Option(fd, o)
}
