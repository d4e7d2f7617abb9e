// Command rooms is a chat over several loops, one for each core. Each loop accepts and
// serves its own connections without a lock. Messages go from loop to loop through
// inboxes, one for each loop.
//
//	go run ./examples/rooms
//	nc 127.0.0.1 9000                 (in several terminals)
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/stream"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:9000", "`ADDRESS` to listen on")
	loops := flag.Int("loops", runtime.GOMAXPROCS(0), "`NUMBER` of loops")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, *loops, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "rooms:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, or one of the loops fails.
func run(ctx context.Context, addr string, loops int, out io.Writer) error {
	rooms := make([]*room, loops)
	for i := range rooms {
		rooms[i] = &room{number: i + 1, inbox: cosync.NewInbox[message](256), rooms: rooms, guests: map[string]*guest{}}
	}
	// The loops share the address. It is passed from one loop to the next, because
	// with port 0 only the first loop knows the port.
	address := cosync.NewInbox[string](1)
	if err := address.TryPut(addr); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, r := range rooms {
		all.Go(func() {
			cancel(spindle.Run(ctx, func(ctx context.Context) error { return r.serve(ctx, address, out) }))
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// serve runs one loop's listener and its delivery task.
func (r *room) serve(ctx context.Context, address *cosync.Inbox[string], out io.Writer) error {
	addr, err := address.Get(ctx)
	if err != nil {
		return err
	}
	ln, err := stream.ListenConfig{ReusePort: true}.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "room %d listens on %s\n", r.number, ln.Addr())
	if err := address.Put(ctx, ln.Addr().String()); err != nil {
		return err
	}
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(r.deliver)
		return stream.Serve(ctx, ln, r.serveGuest)
	})
}
