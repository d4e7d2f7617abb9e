package nats_test

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// breaker makes connections that can freeze and break.
type breaker struct {
	mu     sync.Mutex
	frozen bool // guarded by mu, as all below
	open   map[net.Conn]bool
}

func (b *breaker) Dial(network, address string) (net.Conn, error) {
	if b.isFrozen() {
		return nil, errors.New("frozen")
	}
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[c] = true
	return breakable{c, b}, nil
}

func (b *breaker) isFrozen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.frozen
}

func (b *breaker) freeze(frozen bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.frozen = frozen
}

// breakAll breaks all connections, as if the process were killed.
func (b *breaker) breakAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.open {
		c.Close()
	}
	clear(b.open)
}

// breakable is a connection that carries nothing while it is frozen.
type breakable struct {
	net.Conn
	b *breaker
}

func (c breakable) Write(p []byte) (int, error) {
	for c.b.isFrozen() {
		time.Sleep(time.Millisecond)
	}
	return c.Conn.Write(p)
}

func (c breakable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for err == nil && c.b.isFrozen() { // what was read comes later
		time.Sleep(time.Millisecond)
	}
	return n, err
}

// breakThings makes faults until done is closed, and at least one of each kind.
func (f *faulty) breakThings(t *testing.T, done chan struct{}) {
	kinds := []struct {
		name string
		make func(t *testing.T)
	}{
		{"server killed", f.killServer},
		{"credentials refused", f.refuseCredentials},
		{"caller frozen", func(*testing.T) { f.freezeFor(f.callers[f.random.IntN(len(f.callers))]) }},
		{"worker frozen", func(*testing.T) { f.freezeFor(f.workers[f.random.IntN(len(f.workers))]) }},
		{"connections broken", func(*testing.T) {
			f.callers[f.random.IntN(len(f.callers))].dialer.breakAll()
			f.workers[f.random.IntN(len(f.workers))].dialer.breakAll()
		}},
		{"worker killed", f.killWorker},
	}
	for n := 0; ; n++ {
		select {
		case <-done:
			return
		case <-time.After(time.Duration(50+f.random.IntN(200)) * time.Millisecond):
		}
		f.forgeReply()
		kind := kinds[f.random.IntN(len(kinds))]
		if n < len(kinds) {
			kind = kinds[n]
		}
		kind.make(t)
		f.faults[kind.name]++
		if n == len(kinds)-1 {
			f.all.Store(true)
		}
	}
}

func (f *faulty) restart(t *testing.T, i int) {
	f.b.Kill(i)
	if err := f.b.Restart(i); err != nil {
		t.Errorf("a server does not start again: %v", err)
	}
}

func (f *faulty) killServer(t *testing.T) { f.restart(t, f.random.IntN(len(f.options))) }

// refuseCredentials makes all servers refuse everything for a while.
func (f *faulty) refuseCredentials(t *testing.T) {
	for _, password := range []string{"another ", ""} {
		for i, o := range f.options {
			f.b.Kill(i)
			for _, u := range o.Users {
				u.Password = password + u.Username
			}
			if err := f.b.Restart(i); err != nil {
				t.Errorf("a server does not start again: %v", err)
			}
		}
		time.Sleep(time.Duration(f.random.IntN(500)) * time.Millisecond)
	}
}

func (f *faulty) freezeFor(m *member) {
	m.dialer.freeze(true)
	time.Sleep(time.Duration(100+f.random.IntN(1500)) * time.Millisecond)
	m.dialer.freeze(false)
}

// killWorker replaces a worker by another one. Its connection breaks first, so that what it
// has is lost.
func (f *faulty) killWorker(t *testing.T) {
	i := f.random.IntN(len(f.workers))
	old := f.workers[i]
	old.dialer.breakAll()
	old.stop()
	_ = old.bus.Close() // it may have no connection
	f.workers[i] = f.connect(t, "work")
	f.serve(t, f.workers[i])
}

// forgeReply answers calls of a caller as a worker of another subject, which is not permitted.
func (f *faulty) forgeReply() {
	m := f.victim.Load()
	if m == nil {
		return
	}
	address := strings.Join(strings.Split(m.Reply, ".")[:2], ".")
	for _, call := range []string{"1z141z4", "1z141z5", "42-1"} {
		if f.forger.Publish(address+"."+call, []byte("forged")) == nil {
			f.forged++
		}
	}
}
