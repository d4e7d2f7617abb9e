package nats

import (
	"sync"

	"github.com/nats-io/nats.go"
)

// overflow has cancellations that did not fit into the outbox. When the scope of many calls
// ends, their cancellations come all at once, and none can wait.
type overflow struct {
	mu  sync.Mutex
	all []*nats.Msg // guarded by mu
}

const mostOverflow = 1 << 16

// add reports false if there is no more space.
func (o *overflow) add(m *nats.Msg) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.all) == mostOverflow {
		return false
	}
	o.all = append(o.all, m)
	return true
}

// take removes and returns all of them.
func (o *overflow) take() []*nats.Msg {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.all
	o.all = nil
	return all
}

func (o *overflow) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.all)
}
