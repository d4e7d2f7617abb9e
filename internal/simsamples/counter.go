package simsamples

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

var counterFaults = sim.Faults{
	For: 5 * time.Second, Lasting: time.Second,
	Loss: 0.01, Reorder: 0.05, PartitionEvery: 4 * time.Second, PauseEvery: 6 * time.Second,
}

// counter is a counter with a copy on each of three hosts. A host that adds to its copy
// sends the addition to the others by datagrams, until they have confirmed it. No copy
// ever counts more than was added, and in the end all copies are the same.
//
// If a confirmation is lost, the same addition comes again. A fixed replica remembers
// the additions that it has seen.
func counter(fixed bool) func(w *sim.World) {
	return func(w *sim.World) {
		c := &counted{fixed: fixed, each: w.Amount("additions", 3)}
		for i := range w.Amount("replicas", 3) {
			c.replicas = append(c.replicas, &replica{
				c: c, name: string(rune('a' + i)), seen: map[string]bool{}, confirmed: map[string]bool{},
			})
		}
		for _, r := range c.replicas {
			w.Host(r.name).Go(r.run)
		}
		w.Always("no replica counts more than was added", c.notTooMany)
		w.Eventually("all replicas count the same", 5*time.Minute, c.complete)
	}
}

// counted is the state of all replicas.
type counted struct {
	fixed    bool
	each     int // additions of each replica
	added    int // by all replicas so far
	replicas []*replica
}

func (c *counted) notTooMany() error {
	for _, r := range c.replicas {
		if r.value > c.added {
			return fmt.Errorf("%s counts %d of %d", r.name, r.value, c.added)
		}
	}
	return nil
}

func (c *counted) complete() bool {
	for _, r := range c.replicas {
		if r.value != c.each*len(c.replicas) {
			return false
		}
	}
	return true
}

// replica is a copy of the counter. Its state survives a crash, as if it were on a disk.
type replica struct {
	c         *counted
	name      string
	value     int
	own       int             // its own additions so far
	seen      map[string]bool // additions of other replicas
	confirmed map[string]bool // its own additions, with the replica that has confirmed them
}

// run is the replica's program: it adds, sends its additions, and receives those of others.
func (r *replica) run(ctx context.Context) error {
	pc, err := stream.ListenPacket(ctx, "udp", ":9")
	if err != nil {
		return err
	}
	defer pc.Close()
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(func(ctx context.Context) error { return r.receive(pc) })
		for i := range r.c.each {
			if i == r.own {
				r.own++
				r.value++
				r.c.added++
			}
			for _, peer := range r.c.replicas {
				if peer != r {
					n.Go(func(ctx context.Context) error { return r.send(ctx, pc, peer.name, fmt.Sprint(r.name, i)) })
				}
			}
			if err := spindle.Sleep(ctx, 300*time.Millisecond); err != nil {
				return err
			}
		}
		for !r.c.complete() {
			if err := spindle.Sleep(ctx, 300*time.Millisecond); err != nil {
				return err
			}
		}
		n.Scope().Cancel(nil)
		return nil
	})
}

// receive handles messages of other replicas.
func (r *replica) receive(pc *stream.PacketConn) error {
	buf := make([]byte, 128)
	for {
		n, from, err := pc.ReadFromAddrPort(buf)
		if err != nil {
			return err
		}
		var word, addition, peer string
		fmt.Sscan(string(buf[:n]), &word, &addition, &peer)
		if word == "ok" {
			r.confirmed[addition+peer] = true
			continue
		}
		if !r.seen[addition] || !r.c.fixed {
			r.seen[addition] = true
			r.value++
		}
		if _, err := pc.WriteToAddrPort(fmt.Appendf(nil, "ok %s %s", addition, r.name), from); err != nil {
			return err
		}
	}
}

// send sends an addition to a peer until the peer has confirmed it.
func (r *replica) send(ctx context.Context, pc *stream.PacketConn, peer, addition string) error {
	addrs, err := stream.LookupNetIP(ctx, "ip4", peer)
	if err != nil {
		return err
	}
	to := netip.AddrPortFrom(addrs[0], 9)
	for !r.confirmed[addition+peer] {
		if _, err := pc.WriteToAddrPort([]byte("add "+addition), to); err != nil {
			return err
		}
		if err := spindle.Sleep(ctx, retryAfter); err != nil {
			return err
		}
	}
	return nil
}
