package transport

import (
	"context"
	"net"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/internal/workers"
	"github.com/spindleloop/spindle/loop"
)

// OpenDatagram is Datagram for hosts that may be names. It returns at once, and later calls either
// ConnectionMade of the protocol, or onError with a *net.OpError. Names are looked up on a worker. Of
// the addresses that they have, the first pair of one family is used that can be bound and connected.
// When ctx is done before that, OpenDatagram fails with its cause.
func OpenDatagram(ctx context.Context, l *loop.Loop, p DatagramProtocol, o DatagramOptions, onError func(error)) {
	if p == nil || onError == nil {
		panic("transport: OpenDatagram with a nil DatagramProtocol or a nil function for errors")
	}
	op := &opening{l: l, proto: p, o: o, onError: onError, st: loopStateOf("OpenDatagram", l)}
	if op.o.Network == "" {
		op.o.Network = "udp"
	}
	var err error
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if err = op.parse(); err == nil {
		lookup, stop := context.WithCancel(context.Background())
		op.stopLookup = stop
		op.job, err = onloop.Offload(l, &datagramLookups, atclose.Report,
			func() ([]binding, error) { return op.resolve(lookup) }, op.resolved)
	}
	if err != nil {
		op.st.sockets.L.Internal().CallSoon(atclose.Run, func() { op.fail(err) })
		return
	}
	op.stopContext = l.Internal().AfterFunc(ctx, func() {
		if op.job.Cancel() {
			op.fail(context.Cause(ctx))
		}
	})
}

// datagramLookups is the pool of name lookups, which take seconds if a name server does not answer.
var datagramLookups = workers.Pool{Name: "name lookups"}

// opening is an OpenDatagram in progress. Loop goroutine only, except for resolve.
type opening struct {
	l       *loop.Loop
	st      *loopState
	proto   DatagramProtocol
	o       DatagramOptions
	onError func(error)

	local, remote sock.Target // zero if the option is empty
	job           loop.Job
	stopLookup    context.CancelFunc
	stopContext   func() bool
}

// binding is a pair of addresses, as DatagramOptions has them.
type binding struct{ local, remote string }

func (op *opening) parse() (err error) {
	if op.o.Sock != nil {
		return nil
	}
	if op.o.Local != "" {
		if op.local, err = sock.ParseTarget(op.o.Network, op.o.Local); err != nil {
			return err
		}
	}
	if op.o.Remote != "" {
		op.remote, err = sock.ParseTarget(op.o.Network, op.o.Remote)
	}
	return err
}

// resolve returns the pairs to try. It is called on a worker.
func (op *opening) resolve(ctx context.Context) (pairs []binding, err error) {
	if op.o.Sock != nil {
		return []binding{{}}, nil
	}
	locals, err := op.addresses(ctx, op.o.Local, op.local, true)
	if err != nil {
		return nil, err
	}
	remotes, err := op.addresses(ctx, op.o.Remote, op.remote, false)
	if err != nil {
		return nil, err
	}
	for _, remote := range remotes {
		for _, local := range locals {
			if local.Family() == 0 || remote.Family() == 0 || local.Family() == remote.Family() {
				pairs = append(pairs, binding{text(local, op.o.Local), text(remote, op.o.Remote)})
			}
		}
	}
	if len(pairs) == 0 {
		err = &net.AddrError{Err: "no address of the same family as " + op.o.Local, Addr: op.o.Remote}
	}
	return pairs, err
}

// addresses returns the addresses of a target. The zero address stands for an option as it is: an empty one, an
// empty host, or a path.
func (op *opening) addresses(ctx context.Context, option string, t sock.Target, toBind bool) ([]kernel.Addr, error) {
	if option == "" {
		return make([]kernel.Addr, 1), nil
	}
	if _, ok := t.Known(toBind); ok {
		return make([]kernel.Addr, 1), nil
	}
	return t.Lookup(ctx, op.st.sockets.K.Resolver)
}

func text(a kernel.Addr, option string) string {
	if a.Family() == 0 {
		return option
	}
	return a.String()
}

// resolved opens the endpoint with the first pair that works.
func (op *opening) resolved(pairs []binding, err error) {
	for _, pair := range pairs {
		o := op.o
		if o.Sock != nil {
			o = DatagramOptions{Sock: o.Sock}
		} else {
			o.Local, o.Remote = pair.local, pair.remote
		}
		if _, failure := Datagram(op.l, op.proto, o); failure == nil {
			op.end()
			return
		} else if err == nil {
			err = failure
		}
	}
	op.fail(err)
}

func (op *opening) end() {
	if op.stopLookup != nil {
		op.stopLookup()
	}
	if op.stopContext != nil {
		op.stopContext()
	}
}

func (op *opening) fail(err error) {
	op.end()
	op.onError(sock.Error("listen", op.o.Network, nil, nil, err))
}
