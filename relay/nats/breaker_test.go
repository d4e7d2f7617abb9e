package nats_test

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// breaker is between a bus and the servers. Its connections can freeze and break, while the bus has
// a connection of its own, as in a program.
type breaker struct {
	urls string // for the bus
	stop func()

	mu     sync.Mutex
	frozen bool // guarded by mu, as all below
	open   map[net.Conn]bool
}

// newBreaker makes a breaker for each server of a URL. It ends with stop.
func newBreaker(t *testing.T, servers string) *breaker {
	t.Helper()
	b := &breaker{open: map[net.Conn]bool{}}
	var listeners []net.Listener
	var running sync.WaitGroup
	for server := range strings.SplitSeq(servers, ",") {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, ln)
		b.urls += ",nats://" + ln.Addr().String()
		running.Go(func() { b.accept(ln, strings.TrimPrefix(server, "nats://"), &running) })
	}
	b.urls = b.urls[1:]
	b.stop = sync.OnceFunc(func() {
		for _, ln := range listeners {
			ln.Close()
		}
		b.breakAll()
		running.Wait()
	})
	t.Cleanup(b.stop)
	return b
}

// accept passes connections on to a server.
func (b *breaker) accept(ln net.Listener, server string, running *sync.WaitGroup) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", server)
		if err != nil || b.isFrozen() {
			c.Close()
			if s != nil {
				s.Close()
			}
			continue
		}
		b.mu.Lock()
		b.open[c], b.open[s] = true, true
		b.mu.Unlock()
		running.Go(func() { b.carry(c, s) })
		running.Go(func() { b.carry(s, c) })
	}
}

// carry carries bytes until a connection breaks, and none while they are frozen.
func (b *breaker) carry(to, from net.Conn) {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range []net.Conn{to, from} {
			c.Close()
			delete(b.open, c)
		}
	}()
	for p := make([]byte, 32<<10); ; {
		n, err := from.Read(p)
		for b.isFrozen() && b.isOpen(to) { // what was read comes later
			time.Sleep(time.Millisecond)
		}
		if _, failed := to.Write(p[:n]); err != nil || failed != nil {
			return
		}
	}
}

func (b *breaker) isFrozen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.frozen
}

func (b *breaker) isOpen(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open[c]
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
			f.callers[f.random.IntN(len(f.callers))].breaker.breakAll()
			f.workers[f.random.IntN(len(f.workers))].breaker.breakAll()
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
	m.breaker.freeze(true)
	time.Sleep(time.Duration(100+f.random.IntN(1500)) * time.Millisecond)
	m.breaker.freeze(false)
}

// killWorker replaces a worker by another one. Its connection breaks first, so that what it
// has is lost.
func (f *faulty) killWorker(t *testing.T) {
	i := f.random.IntN(len(f.workers))
	old := f.workers[i]
	old.breaker.stop()
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
