package peers

import (
	"context"

	"github.com/cloudwego/netpoll"
)

// serveNetpoll runs one poller. Handlers run in plain goroutines instead of netpoll's
// pool: its guide recommends that for handlers without stack growth, such as an echo. For
// small messages Next and WriteBinary are netpoll's cheapest pair: Slice and Append save
// the copy but allocate a buffer. TCP_NODELAY is netpoll's default.
func serveNetpoll(o Options) error {
	err := netpoll.Configure(netpoll.Config{
		PollerNum: 1,
		Runner:    func(_ context.Context, f func()) { go f() },
	})
	if err != nil {
		return err
	}
	ln, err := netpoll.CreateListener("tcp4", o.Addr)
	if err != nil {
		return err
	}
	loop, err := netpoll.NewEventLoop(func(_ context.Context, c netpoll.Connection) error {
		in, err := c.Reader().Next(c.Reader().Len())
		if err != nil {
			return err
		}
		if _, err := c.Writer().WriteBinary(in); err != nil {
			return err
		}
		// Flush sends before it returns, so the borrowed bytes can be released then.
		if err := c.Writer().Flush(); err != nil {
			return err
		}
		return c.Reader().Release()
	})
	if err != nil {
		return err
	}
	o.Ready(ln.Addr())
	return loop.Serve(ln)
}
