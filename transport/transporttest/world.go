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

// setting is what a play needs.
type setting struct {
	program program
	network string
	trouble trouble
	ownTime bool
	k       *kernel.Kernel
}

// outcome is what a play leaves behind.
type outcome struct {
	seen  map[place]int
	wrong []string
}

// world is one play of a program.
type world struct {
	*system
	sys     *system
	l       *loop.Loop
	network string
	secure  bool // by TLS
	address string
	server  *transport.Server
	ctx     context.Context
	cancel  context.CancelFunc

	clients, served []*end
	connecting      int // Connects not yet answered
	open            int // ends made and not lost
	owed            int // AfterFlush callbacks
	panics          int
	timers          int // of scripts
	errors          int // told to OnError
	quiet           loop.Timer
	draining        bool
	mayFail         bool // a connect may, also in peace
	over            bool
	loopClosed      bool
}

// Bounds of a play. A connection that does not end by itself in so much virtual
// time never does; a loop that takes so many turns spins.
const (
	patience  = time.Hour
	mostTurns = 40_000
)

// nowhere is an address where nobody answers; names has it in front.
var nowhere = netip.MustParseAddr("192.0.2.250")

// names is a resolver that knows two addresses of everything.
type names struct{}

func (names) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{nowhere, netip.MustParseAddr("127.0.0.1")}, nil
}

var plays atomic.Int64

func run(s setting) outcome {
	sys, k := newSystem(s)
	w := &world{system: sys, sys: sys, network: s.network}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	defer w.cancel()
	if s.network == "tls" {
		w.network, w.secure = "unix", true
	}
	l, err := loop.New(loop.Options{Kernel: k, Watchdog: -1, OnPanic: w.panicked})
	if err != nil {
		w.complain("new: %v", err)
		return outcome{wrong: w.wrong}
	}
	w.l = l
	w.address = "127.0.0.1:0"
	if w.network == "unix" {
		w.address = "@spindle-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(plays.Add(1), 10)
	}
	s.program.play(w)
	w.settled()
	w.turns()
	w.end()
	return outcome{w.seen, w.wrong}
}

func (w *world) panicked(p *loop.PanicError) error {
	w.panics++
	if p.Value != errTrouble {
		w.complain("%v\n%s", p, p.Stack)
	}
	return nil
}

// turns runs the loop until the program is over.
func (w *world) turns() {
	stuck := w.l.CallLater(patience, func() {
		w.complain("stuck with %d connections open, %d to be made, %d flushes owed", w.open, w.connecting, w.owed)
		w.over = true
	})
	for turns := 0; !w.over; turns++ {
		if turns > mostTurns {
			w.complain("the loop spins")
			break
		}
		if w.comes(atTurn) {
			switch w.act {
			case closeLoop:
				w.loopClosed = true
				stuck.Cancel()
				return
			case cancelConnect:
				w.cancel()
				w.posted()
			case abortAll:
				for _, e := range w.served {
					if e.c != nil {
						e.abort()
					}
				}
			}
		}
		if _, err := w.l.RunOnce(patience); err != nil {
			w.complain("run: %v", err)
			return
		}
	}
	stuck.Cancel()
}

// posted waits for what context.AfterFunc does on a goroutine of its own.
func (w *world) posted() {
	done := make(chan bool)
	context.AfterFunc(w.ctx, func() { close(done) })
	<-done
	runtime.Gosched()
}

// end closes the loop and looks at what is left.
func (w *world) end() {
	if !w.loopClosed && len(w.wrong) == 0 {
		stats := w.l.Stats()
		if stats.Ready != 0 || stats.Timers != w.timers || stats.FDs != 0 || stats.Jobs != 0 {
			w.complain("left in the loop: %d callbacks, %d timers, %d descriptors, %d jobs", stats.Ready, stats.Timers, stats.FDs, stats.Jobs)
		}
		if n := sock.RegistryOf(w.l).Open(); n != 0 {
			w.complain("%d sockets left open", n)
		}
	}
	hub := sock.RegistryOf(w.l)
	err := w.l.Close()
	w.finishWork()
	if err != nil {
		w.complain("close: %v", err)
	}
	if hub.Open() != 0 {
		w.complain("%d sockets open after the loop's end", hub.Open())
	}
	if len(w.sys.open) != 0 || len(w.watched) != 0 {
		w.complain("descriptors left open: %v, watched: %v", w.sys.open, w.watched)
	}
	if w.connecting != 0 || w.owed != 0 || w.open != 0 {
		w.complain("%d connects never answered, %d flushes never told of, %d connections never lost", w.connecting, w.owed, w.open)
	}
	if n := w.expectedPanics(); w.panics != n {
		w.complain("%d panics told of, not %d", w.panics, n)
	}
	w.pair()
	for _, e := range append(w.clients, w.served...) {
		e.judge()
	}
}

// pair finds out which ends belong together: connections are accepted in order.
func (w *world) pair() {
	var made []*end
	for _, e := range w.clients {
		if e.made > 0 {
			made = append(made, e)
		}
	}
	if len(made) != len(w.served) {
		return
	}
	for i, e := range made {
		e.other, w.served[i].other = w.served[i], e
	}
}

func (w *world) expectedPanics() int {
	if w.place == atCallback && w.act == doPanic && w.seen[atCallback] >= w.at && w.at > 0 {
		return 1
	}
	return 0
}

// listen serves connections by a script. If it cannot, the program is over.
func (w *world) listen(o transport.Options, s script) bool {
	o.Protocol = func() transport.Protocol {
		return w.newEnd(fmt.Sprintf("server %d", len(w.served)), s, &w.served).protocol()
	}
	o.OnError = func(err error) {
		w.errors++
		if !explained(err) {
			w.complain("told of %T %v", err, err)
		}
	}
	if w.secure {
		o.TLS = tlstest.Identity().Server
	}
	server, err := transport.Listen(w.l, w.network, w.address, o)
	if err != nil {
		if w.place == "" {
			w.complain("listen: %v", err)
		}
		w.over = true
		return false
	}
	w.server = server
	w.address = server.Addr().String()
	return true
}

func (w *world) newEnd(name string, s script, list *[]*end) *end {
	e := &end{w: w, name: name, script: s}
	*list = append(*list, e)
	return e
}

// connect makes a connection to the server, with a script.
func (w *world) connect(o transport.ConnectOptions, s script) {
	e := w.newEnd(fmt.Sprintf("client %d", len(w.clients)), s, &w.clients)
	w.connecting++
	e.answer = func() { w.connecting-- }
	if w.secure {
		o.TLS = tlstest.Identity().Client
	}
	transport.Connect(w.ctx, w.l, w.network, w.address, e.protocol(), o, func(err error) {
		w.connecting--
		if !explained(err) {
			w.complain("connect failed with %T %v", err, err)
		}
		if w.place == "" && !w.mayFail {
			w.complain("connect: %v", err)
		}
		w.settled()
	})
}

// settled ends the program once every client has come and gone: some virtual time
// later, when nothing is under way any more.
func (w *world) settled() {
	if w.connecting > 0 || w.open > 0 || w.server == nil || w.draining {
		return
	}
	w.quiet.Cancel()
	w.quiet = w.l.CallLater(10*time.Second, func() {
		w.draining = true
		w.server.Drain(func() { w.over = true })
	})
}

// later runs fn after some virtual time, for a script: what it leaves is not
// transport's.
func (w *world) later(d time.Duration, fn func()) {
	w.timers++
	w.l.CallLater(d, func() {
		w.timers--
		fn()
	})
}

// port is the port that a server listens on.
func port(s *transport.Server) int {
	return int(netip.MustParseAddrPort(s.Addr().String()).Port())
}
