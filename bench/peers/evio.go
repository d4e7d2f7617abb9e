package peers

import (
	"errors"

	"github.com/tidwall/evio"
)

// serveEvio runs one loop with evio's shared read buffer. evio neither sets TCP_NODELAY
// nor exposes the connection's descriptor, so the option is set on its listening socket.
// Accepted sockets inherit it.
func serveEvio(o Options) error {
	var setup error
	events := evio.Events{
		NumLoops: 1,
		Serving: func(s evio.Server) evio.Action {
			if setup = noDelayOnListeners(); setup != nil {
				return evio.Shutdown
			}
			o.Ready(s.Addrs[0])
			return evio.None
		},
		Opened: func(evio.Conn) ([]byte, evio.Options, evio.Action) {
			return nil, evio.Options{ReuseInputBuffer: true}, evio.None
		},
		Data: func(_ evio.Conn, in []byte) ([]byte, evio.Action) {
			return in, evio.None
		},
	}
	err := evio.Serve(events, "tcp4://"+o.Addr)
	return errors.Join(setup, err)
}
