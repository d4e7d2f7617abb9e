package sock

import (
	"context"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

// Dialing is a connection being made. All addresses of a name are tried, the
// families in turns, each some time after the one before if that has not answered
// (RFC 8305, "happy eyeballs"); the first to answer wins.
type Dialing struct {
	hub    *Hub
	bind   kernel.Addr
	done   func(fd int, a kernel.Addr, err error)
	left   []kernel.Addr
	tries  []*try
	soon   loop.Handle // of next
	timer  loop.Timer
	lookup loop.Job
	stop   context.CancelFunc // of the lookup
	errs   []error
	over   bool

	before, after *Dialing // under way, of the hub
}

// try is one connect under way.
type try struct {
	d    *Dialing
	fd   int
	addr kernel.Addr
}

// attemptDelay is how long an address is waited for before the next is tried too.
const attemptDelay = 250 * time.Millisecond

// Dial connects to t. Done is called on the loop, once, never inside this call,
// and not at all after Cancel: with a connected descriptor, or with why there is
// none, also if that is the loop's end. Bind, if it is an address, is the local one.
func (h *Hub) Dial(t Target, bind kernel.Addr, done func(fd int, a kernel.Addr, err error)) *Dialing {
	d := &Dialing{hub: h, bind: bind, done: done}
	if h.closing { // what is begun now never comes to its end
		d.over = true
		return d
	}
	if d.before = h.dialing; d.before != nil {
		d.before.after = d
	}
	h.dialing = d
	if a, ok := t.Known(false); ok {
		d.left = []kernel.Addr{a}
		d.soon = h.L.CallSoon(d.next)
		return d
	}
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	// Cancel, and the end of the loop, end the Dialing whether or not there is an
	// answer.
	job, err := loop.OffloadWith(h.L, loop.DropAtClose, func() ([]kernel.Addr, error) {
		return t.Lookup(ctx, h.K.Resolver)
	}, d.found)
	if err != nil {
		h.L.CallSoonWith(loop.DropAtClose, func() { d.found(nil, err) })
	}
	d.lookup = job
	return d
}

func (d *Dialing) found(addrs []kernel.Addr, err error) {
	if d.over {
		return
	}
	d.stop()
	if err != nil {
		d.finish(-1, kernel.Addr{}, err)
		return
	}
	d.left = inTurns(addrs)
	d.next()
}

// inTurns has the families take turns, beginning with the first address's.
func inTurns(addrs []kernel.Addr) (mixed []kernel.Addr) {
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

// next tries the next address, and has the one behind it tried after a while.
func (d *Dialing) next() {
	if d.over {
		return
	}
	d.timer.Cancel()
	for len(d.left) > 0 {
		a := d.left[0]
		d.left = d.left[1:]
		err := d.try(a)
		if err == nil {
			if !d.over && len(d.left) > 0 {
				d.timer = d.hub.L.CallLater(attemptDelay, d.next)
			}
			return
		}
		d.errs = append(d.errs, err)
	}
	if len(d.tries) == 0 {
		d.finish(-1, kernel.Addr{}, d.why())
	}
}

// why is the error of a failure: the first, which is of the address that the
// resolver preferred.
func (d *Dialing) why() error {
	if len(d.errs) == 0 {
		return syscall.EHOSTUNREACH
	}
	return d.errs[0]
}

func (d *Dialing) try(a kernel.Addr) error {
	k := d.hub.K
	fd, err := k.Socket(a.Family(), kernel.Stream)
	if err != nil {
		return err
	}
	if d.bind.Family() != 0 {
		if err := first(
			func() error { return d.hub.reuse(fd, d.bind, Binding{}) },
			func() error { return k.Bind(fd, d.bind) },
		); err != nil {
			k.CloseFD(fd)
			return err
		}
	}
	switch err := k.Connect(fd, a); err {
	case nil:
		if d.toItself(fd, a) {
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
	t := &try{d: d, fd: fd, addr: a}
	if err := d.hub.L.AddWriter(fd, t.answered); err != nil {
		k.CloseFD(fd)
		return err
	}
	d.tries = append(d.tries, t)
	return nil
}

// answered ends a try: the peer has accepted, or refused.
func (t *try) answered() {
	d, k := t.d, t.d.hub.K
	code, err := k.Option(t.fd, kernel.SocketError)
	if err == nil && code != 0 {
		err = syscall.Errno(code)
	}
	d.hub.L.RemoveWriter(t.fd)
	d.forget(t)
	if err == nil && d.toItself(t.fd, t.addr) {
		err = syscall.ECONNREFUSED
	}
	if err == nil {
		d.finish(t.fd, t.addr, nil)
		return
	}
	k.CloseFD(t.fd)
	d.errs = append(d.errs, err)
	d.next() // no need to wait for it
}

// toItself tells whether a socket has connected to itself. That happens on one
// machine where nobody listens: the port the system chose for this end may be the
// very one that is called.
func (d *Dialing) toItself(fd int, a kernel.Addr) bool {
	if a.Family() == kernel.Unix || d.bind.Port() != 0 {
		return false
	}
	local, err := d.hub.K.LocalAddr(fd)
	return err == nil && local.AddrPort == a.AddrPort
}

func (d *Dialing) forget(t *try) {
	for i := range d.tries {
		if d.tries[i] == t {
			d.tries = append(d.tries[:i], d.tries[i+1:]...)
			return
		}
	}
}

func (d *Dialing) finish(fd int, a kernel.Addr, err error) {
	d.Cancel()
	d.done(fd, a, err)
}

// Cancel gives up. It tells whether there was something to give up.
func (d *Dialing) Cancel() bool {
	if d.over {
		return false
	}
	d.over = true
	if d.before != nil {
		d.before.after = d.after
	}
	if d.after != nil {
		d.after.before = d.before
	} else {
		d.hub.dialing = d.before
	}
	d.before, d.after = nil, nil
	d.soon.Cancel()
	d.timer.Cancel()
	d.lookup.Cancel()
	if d.stop != nil {
		d.stop()
	}
	for _, t := range d.tries {
		d.hub.L.RemoveWriter(t.fd)
		d.hub.K.CloseFD(t.fd)
	}
	d.tries = nil
	return true
}
