package peers

import (
	"net"
	"os"
	"runtime"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
)

// gnetEcho answers from inside the loop without copying: Next(-1) borrows the
// loop's read buffer and Write sends it before the callback returns.
type gnetEcho struct {
	gnet.BuiltinEventEngine
	o   Options
	err error
}

func (s *gnetEcho) OnBoot(engine gnet.Engine) gnet.Action {
	addr, err := gnetAddr(engine)
	if err != nil {
		s.err = err
		return gnet.Shutdown
	}
	// The socket already listens, so new connections wait in its backlog.
	s.o.Ready(addr)
	return gnet.None
}

func (s *gnetEcho) OnTraffic(c gnet.Conn) gnet.Action {
	in, err := c.Next(-1)
	if err != nil {
		return gnet.Close
	}
	if _, err := c.Write(in); err != nil {
		return gnet.Close
	}
	return gnet.None
}

// gnetAddr returns the address of the listening socket. gnet only has the address that
// it was given, with port 0.
func gnetAddr(engine gnet.Engine) (net.Addr, error) {
	fd, err := engine.Dup()
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "gnet listener")
	defer f.Close()
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	return ln.Addr(), nil
}

// serveGnet runs one loop for each core. With ReusePort these loops also accept, without a
// separate loop that only accepts and hands over. TCP_NODELAY is gnet's default. To use
// gnet's undocumented build tag poll_opt, run `go run -tags poll_opt .`.
func serveGnet(o Options) error {
	s := &gnetEcho{o: o}
	err := gnet.Run(s, "tcp4://"+o.Addr,
		gnet.WithNumEventLoop(runtime.GOMAXPROCS(0)),
		gnet.WithReusePort(true),
		gnet.WithTCPNoDelay(gnet.TCPNoDelay),
		gnet.WithLogLevel(logging.ErrorLevel))
	if s.err != nil {
		return s.err
	}
	return err
}
