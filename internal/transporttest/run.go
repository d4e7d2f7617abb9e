package transporttest

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// config describes one run.
type config struct {
	program program
	network string
	fault   fault
	ownTime bool
	k       *kernel.Kernel
}

// result is the outcome of a run.
type result struct {
	calls    map[site]int
	problems []string
}

// run is one execution of a program.
type run struct {
	*faultyKernel
	kernel  *faultyKernel
	l       *loop.Loop
	network string
	secure  bool // use TLS
	address string
	server  *transport.Server
	ctx     context.Context
	cancel  context.CancelFunc

	clients, served []*peer
	connecting      int // calls of Connect without a result
	open            int // peers made and not lost
	pendingFlushes  int // AfterFlush callbacks not called yet
	panics          int
	timers          int // timers of scripts
	errors          int // calls of OnError
	idleTimer       loop.Timer
	draining        bool
	mayFail         bool // a connect may fail even without a fault
	finished        bool
	loopClosed      bool
}

// Limits of a run. A connection that does not end within timeLimit of virtual time
// never does; a loop that takes more than maxTurns spins.
const (
	timeLimit = time.Hour
	maxTurns  = 40_000
)

// unreachable is an address that never answers. The resolver returns it first.
var unreachable = netip.MustParseAddr("192.0.2.250")

// resolver returns the same two addresses for every name.
type resolver struct{}

func (resolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{unreachable, netip.MustParseAddr("127.0.0.1")}, nil
}

var runs atomic.Int64

func execute(s config) result {
	sys, k := newFaultyKernel(s)
	r := &run{faultyKernel: sys, kernel: sys, network: s.network}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	defer r.cancel()
	if s.network == "tls" {
		r.network, r.secure = "unix", true
	}
	l, err := loop.New(loop.Internal().WithKernel(loop.Options{Watchdog: -1, OnPanic: r.panicked}, k))
	if err != nil {
		r.problem("new: %v", err)
		return result{problems: r.problems}
	}
	r.l = l
	r.address = "127.0.0.1:0"
	if r.network == "unix" {
		r.address = "@spindle-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(runs.Add(1), 10)
	}
	s.program.start(r)
	r.checkIdle()
	r.runLoop()
	r.finish()
	return result{r.calls, r.problems}
}

func (r *run) panicked(p *loop.PanicError) error {
	r.panics++
	if p.Value != errInjected {
		r.problem("%v\n%s", p, p.Stack)
	}
	return nil
}

// runLoop runs the loop until the program is finished.
func (r *run) runLoop() {
	stuck := r.l.CallLater(timeLimit, func() {
		r.problem("stuck with %d open connections, %d pending connects, %d pending flushes", r.open, r.connecting, r.pendingFlushes)
		r.finished = true
	})
	for turns := 0; !r.finished; turns++ {
		if turns > maxTurns {
			r.problem("the loop spins")
			break
		}
		if r.injects(atTurn) {
			switch r.action {
			case closeLoop:
				r.loopClosed = true
				stuck.Cancel()
				return
			case cancelConnect:
				r.cancel()
				r.waitPosted()
			case abortAll:
				for _, p := range r.served {
					if p.c != nil {
						p.abort()
					}
				}
			}
		}
		if _, err := r.l.RunOnce(timeLimit); err != nil {
			r.problem("run: %v", err)
			return
		}
	}
	stuck.Cancel()
}

// waitPosted waits until the functions of context.AfterFunc, which run on goroutines of
// their own, have started.
func (r *run) waitPosted() {
	done := make(chan bool)
	context.AfterFunc(r.ctx, func() { close(done) })
	<-done
	runtime.Gosched()
}

// finish closes the loop and checks that nothing is left.
func (r *run) finish() {
	if !r.loopClosed && len(r.problems) == 0 {
		stats := r.l.Stats()
		if stats.Ready != 0 || stats.Timers != r.timers || stats.FDs != 0 || stats.Jobs != 0 {
			r.problem("left in the loop: %d callbacks, %d timers, %d descriptors, %d jobs", stats.Ready, stats.Timers, stats.FDs, stats.Jobs)
		}
		if n := sock.RegistryOf(r.l).Open(); n != 0 {
			r.problem("%d sockets left open", n)
		}
	}
	sockets := sock.RegistryOf(r.l)
	err := r.l.Close()
	r.finishWork()
	if err != nil {
		r.problem("close: %v", err)
	}
	if sockets.Open() != 0 {
		r.problem("%d sockets open after the loop was closed", sockets.Open())
	}
	if len(r.kernel.open) != 0 || len(r.watched) != 0 {
		r.problem("descriptors left open: %v, watched: %v", r.kernel.open, r.watched)
	}
	if r.connecting != 0 || r.pendingFlushes != 0 || r.open != 0 {
		r.problem("%d connects without a result, %d AfterFlush callbacks never called, %d connections never lost", r.connecting, r.pendingFlushes, r.open)
	}
	if n := r.expectedPanics(); r.panics != n {
		r.problem("OnPanic called %d times, want %d", r.panics, n)
	}
	r.pairPeers()
	for _, p := range append(r.clients, r.served...) {
		p.check()
	}
}

// pairPeers finds out which peers belong together: connections are accepted in order.
func (r *run) pairPeers() {
	var made []*peer
	for _, p := range r.clients {
		if p.made > 0 {
			made = append(made, p)
		}
	}
	if len(made) != len(r.served) {
		return
	}
	for i, p := range made {
		p.other, r.served[i].other = r.served[i], p
	}
}

func (r *run) expectedPanics() int {
	if r.site == atCallback && r.action == doPanic && r.calls[atCallback] >= r.at && r.at > 0 {
		return 1
	}
	return 0
}

// listen serves connections with a script. If that fails, the program is finished.
func (r *run) listen(o transport.Options, s script) bool {
	o.Protocol = func() transport.Protocol {
		return r.newPeer(fmt.Sprintf("server %d", len(r.served)), s, &r.served).protocol()
	}
	o.OnError = func(err error) {
		r.errors++
		if !isNetError(err) {
			r.problem("OnError got %T %v", err, err)
		}
	}
	if r.secure {
		o.TLS = tlstest.Identity().Server
	}
	server, err := transport.Listen(r.l, r.network, r.address, o)
	if err != nil {
		if r.site == "" {
			r.problem("listen: %v", err)
		}
		r.finished = true
		return false
	}
	r.server = server
	r.address = server.Addr().String()
	return true
}

func (r *run) newPeer(name string, s script, peers *[]*peer) *peer {
	p := &peer{run: r, name: name, script: s}
	*peers = append(*peers, p)
	return p
}

// connect makes a connection to the server, with a script.
func (r *run) connect(o transport.ConnectOptions, s script) {
	p := r.newPeer(fmt.Sprintf("client %d", len(r.clients)), s, &r.clients)
	r.connecting++
	p.onConnect = func() { r.connecting-- }
	if r.secure {
		o.TLS = tlstest.Identity().Client
	}
	o.Protocol = p.protocol()
	o.OnError = func(err error) {
		r.connecting--
		if !isNetError(err) {
			r.problem("connect failed with %T %v", err, err)
		}
		if r.site == "" && !r.mayFail {
			r.problem("connect: %v", err)
		}
		r.checkIdle()
	}
	transport.Connect(r.ctx, r.l, r.network, r.address, o)
}

// checkIdle finishes the program once no connection is open or being made, after some
// virtual time in which bytes in flight arrive.
func (r *run) checkIdle() {
	if r.connecting > 0 || r.open > 0 || r.server == nil || r.draining {
		return
	}
	r.idleTimer.Cancel()
	r.idleTimer = r.l.CallLater(10*time.Second, func() {
		r.draining = true
		r.server.Drain(func() { r.finished = true })
	})
}

// later runs fn of a script after some virtual time. It counts the timer, so that finish
// can tell it from a timer left by package transport.
func (r *run) later(d time.Duration, fn func()) {
	r.timers++
	r.l.CallLater(d, func() {
		r.timers--
		fn()
	})
}

// port returns the port that a server listens on.
func port(s *transport.Server) int {
	return int(netip.MustParseAddrPort(s.Addr().String()).Port())
}
