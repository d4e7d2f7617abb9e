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

// counter is a counter of which three hosts have a copy. Who adds to his own tells
// the others by datagrams, again and again until they have confirmed it. The
// copies never count more than was added, and in the end all the same.
//
// A confirmation may be lost: then the same addition comes again. A mended replica
// knows those it has seen.
func counter(mended bool) func(w *sim.World) {
	return func(w *sim.World) {
		c := &counted{mended: mended, each: w.Amount("additions", 3)}
		for i := range w.Amount("replicas", 3) {
			c.replicas = append(c.replicas, &replica{
				c: c, name: string(rune('a' + i)), seen: map[string]bool{}, confirmed: map[string]bool{},
			})
		}
		for _, r := range c.replicas {
			w.Host(r.name).Go(r.run)
		}
		w.Always("nobody counts what was not added", c.notTooMany)
		w.Eventually("all count the same", 5*time.Minute, c.complete)
	}
}

// counted is the counter, as somebody sees it who sees all hosts.
type counted struct {
	mended   bool
	each     int // how often each replica adds
	added    int // in all, so far
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

// replica is a copy. What is here survives a crash, as if it were on a disk.
type replica struct {
	c         *counted
	name      string
	value     int
	own       int             // additions of its own, so far
	seen      map[string]bool // additions of others
	confirmed map[string]bool // its own, by those who have confirmed them
}

// run is the replica's program: it adds, tells the others, and hears them.
func (r *replica) run(ctx context.Context) error {
	pc, err := stream.ListenPacket(ctx, "udp", ":9")
	if err != nil {
		return err
	}
	defer pc.Close()
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(func(ctx context.Context) error { return r.hear(pc) })
		for i := range r.c.each {
			if i == r.own {
				r.own++
				r.value++
				r.c.added++
			}
			for _, peer := range r.c.replicas {
				if peer != r {
					n.Go(func(ctx context.Context) error { return r.tell(ctx, pc, peer.name, fmt.Sprint(r.name, i)) })
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

// hear takes in what the others say.
func (r *replica) hear(pc *stream.PacketConn) error {
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
		if !r.seen[addition] || !r.c.mended {
			r.seen[addition] = true
			r.value++
		}
		if _, err := pc.WriteToAddrPort(fmt.Appendf(nil, "ok %s %s", addition, r.name), from); err != nil {
			return err
		}
	}
}

// tell tells a peer of an addition until it has confirmed that.
func (r *replica) tell(ctx context.Context, pc *stream.PacketConn, peer, addition string) error {
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
