package sock

import (
	"context"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/internal/workers"
	"github.com/spindleloop/spindle/loop"
)

// Dialing is a connection attempt. It tries all addresses of a name, alternating
// between the families. Each address is tried some time after the previous one if
// that has not answered (RFC 8305, "happy eyeballs"). The first to answer wins.
type Dialing struct {
	reg        *Registry
	bind       kernel.Addr
	done       func(fd int, a kernel.Addr, err error)
	remaining  []kernel.Addr
	attempts   []*attempt
	start      loop.Handle // the pending first call of tryNext
	timer      loop.Timer
	lookup     loop.Job
	stopLookup context.CancelFunc
	errs       []error
	finished   bool

	prev, next *Dialing // the registry's list of dials in progress
}

// attempt is one connect in progress.
type attempt struct {
	d    *Dialing
	fd   int
	addr kernel.Addr
}

// attemptDelay is how long an address has to answer before the next one is tried too.
const attemptDelay = 250 * time.Millisecond

// Dial connects to t, from the local address bind unless that is zero. It calls done
// once on the loop, never inside this call and never after Cancel, with a connected
// descriptor or the error. If the loop closes first, the error is net.ErrClosed.
func (r *Registry) Dial(t Target, bind kernel.Addr, done func(fd int, a kernel.Addr, err error)) *Dialing {
	d := &Dialing{reg: r, bind: bind, done: done}
	if r.closing { // the loop runs no more turns, so the attempt could never complete
		d.finished = true
		return d
	}
	if d.prev = r.dials; d.prev != nil {
		d.prev.next = d
	}
	r.dials = d
	if a, ok := t.Known(false); ok {
		d.remaining = []kernel.Addr{a}
		d.start = r.L.CallSoon(d.tryNext)
		return d
	}
	ctx, stop := context.WithCancel(context.Background())
	d.stopLookup = stop
	// Cancel and LoopClosing end the Dialing without waiting for the result, so the
	// loop may drop it.
	job, err := onloop.Offload(r.L, &lookups, atclose.Drop, func() ([]kernel.Addr, error) {
		return t.Lookup(ctx, r.K.Resolver)
	}, d.resolved)
	if err != nil {
		r.L.Internal().CallSoon(atclose.Drop, func() { d.resolved(nil, err) })
	}
	d.lookup = job
	return d
}

// lookups is the pool of name lookups, which take seconds if a name server does not answer.
var lookups = workers.Pool{Name: "name lookups"}

func (d *Dialing) resolved(addrs []kernel.Addr, err error) {
	if d.finished {
		return
	}
	d.stopLookup()
	if err != nil {
		d.finish(-1, kernel.Addr{}, err)
		return
	}
	d.remaining = interleave(addrs)
	d.tryNext()
}

// interleave alternates between the families, starting with that of the first address.
func interleave(addrs []kernel.Addr) (mixed []kernel.Addr) {
	var first, second []kernel.Addr
	for _, a := range addrs {
		if a.Family() == addrs[0].Family() {
			first = append(first, a)
		} else {
			second = append(second, a)
		}
	}
	for len(first)+len(second) > 0 {
		if len(first) > 0 {
			mixed, first = append(mixed, first[0]), first[1:]
		}
		first, second = second, first
	}
	return mixed
}

// tryNext tries the next address, and schedules the one after it.
func (d *Dialing) tryNext() {
	if d.finished {
		return
	}
	d.timer.Cancel()
	for len(d.remaining) > 0 {
		a := d.remaining[0]
		d.remaining = d.remaining[1:]
		err := d.attempt(a)
		if err == nil {
			if !d.finished && len(d.remaining) > 0 {
				d.timer = d.reg.L.CallLater(attemptDelay, d.tryNext)
			}
			return
		}
		d.errs = append(d.errs, err)
	}
	if len(d.attempts) == 0 {
		d.finish(-1, kernel.Addr{}, d.firstError())
	}
}

// firstError returns the error of the first failure, which belongs to the address
// that the resolver preferred.
func (d *Dialing) firstError() error {
	if len(d.errs) == 0 {
		return syscall.EHOSTUNREACH
	}
	return d.errs[0]
}

func (d *Dialing) attempt(a kernel.Addr) error {
	k := d.reg.K
	fd, err := k.Socket(a.Family(), kernel.Stream)
	if err != nil {
		return err
	}
	if d.bind.Family() != 0 {
		if err := runSteps(
			func() error { return d.reg.configure(fd, d.bind, Binding{}) },
			func() error { return k.Bind(fd, d.bind) },
		); err != nil {
			k.CloseFD(fd)
			return err
		}
	}
	switch err := k.Connect(fd, a); err {
	case nil:
		if d.selfConnected(fd, a) {
			k.CloseFD(fd)
			return syscall.ECONNREFUSED
		}
		d.finish(fd, a, nil)
		return nil
	case syscall.EINPROGRESS:
	default:
		k.CloseFD(fd)
		return err
	}
	t := &attempt{d: d, fd: fd, addr: a}
	if err := d.reg.L.AddWriter(fd, t.completed); err != nil {
		k.CloseFD(fd)
		return err
	}
	d.attempts = append(d.attempts, t)
	return nil
}

// completed ends an attempt: the peer has accepted or refused.
func (t *attempt) completed() {
	d, k := t.d, t.d.reg.K
	code, err := k.Option(t.fd, kernel.SocketError)
	if err == nil && code != 0 {
		err = syscall.Errno(code)
	}
	d.reg.L.RemoveWriter(t.fd)
	d.forget(t)
	if err == nil && d.selfConnected(t.fd, t.addr) {
		err = syscall.ECONNREFUSED
	}
	if err == nil {
		d.finish(t.fd, t.addr, nil)
		return
	}
	k.CloseFD(t.fd)
	d.errs = append(d.errs, err)
	d.tryNext() // without waiting for attemptDelay
}

// selfConnected reports whether a socket has connected to itself. That can happen when
// dialing a local port without a listener: the system may choose that same port for
// this end.
func (d *Dialing) selfConnected(fd int, a kernel.Addr) bool {
	if a.Family() == kernel.Unix || d.bind.Port() != 0 {
		return false
	}
	local, err := d.reg.K.LocalAddr(fd)
	return err == nil && local.AddrPort == a.AddrPort
}

func (d *Dialing) forget(t *attempt) {
	for i := range d.attempts {
		if d.attempts[i] == t {
			d.attempts = append(d.attempts[:i], d.attempts[i+1:]...)
			return
		}
	}
}

func (d *Dialing) finish(fd int, a kernel.Addr, err error) {
	d.Cancel()
	d.done(fd, a, err)
}

// Cancel stops the attempt. It reports whether the attempt was still in progress.
func (d *Dialing) Cancel() bool {
	if d.finished {
		return false
	}
	d.finished = true
	if d.prev != nil {
		d.prev.next = d.next
	}
	if d.next != nil {
		d.next.prev = d.prev
	} else {
		d.reg.dials = d.prev
	}
	d.prev, d.next = nil, nil
	d.start.Cancel()
	d.timer.Cancel()
	d.lookup.Cancel()
	if d.stopLookup != nil {
		d.stopLookup()
	}
	for _, t := range d.attempts {
		d.reg.L.RemoveWriter(t.fd)
		d.reg.K.CloseFD(t.fd)
	}
	d.attempts = nil
	return true
}
