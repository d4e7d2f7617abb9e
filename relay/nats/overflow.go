package nats

import (
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/cosync"
)

// overflow has cancellations that did not fit into the outbox. When the scope of many calls
// ends, their cancellations come all at once, and none can wait.
type overflow struct {
	mu     sync.Mutex
	all    []*nats.Msg // guarded by mu, as all below
	closed bool
}

const mostOverflow = 1 << 16

// add fails as TryPut of the outbox does: with cosync.ErrWouldBlock if there is no more space,
// and with cosync.ErrClosed.
func (o *overflow) add(m *nats.Msg) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return cosync.ErrClosed
	case len(o.all) == mostOverflow:
		return cosync.ErrWouldBlock
	}
	o.all = append(o.all, m)
	return nil
}

// take removes and returns all of them.
func (o *overflow) take() []*nats.Msg {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.all
	o.all = nil
	return all
}

// close makes add fail, and returns what take would.
func (o *overflow) close() []*nats.Msg {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	return o.take()
}

func (o *overflow) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.all)
}
