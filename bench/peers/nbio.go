package peers

import (
	"net"

	"github.com/lesismal/nbio"
	"github.com/lesismal/nbio/logging"
)

// serveNbio runs one poller that reads in the loop (level-triggered, nbio's default for
// plain TCP). nbio's README copies the data before Write. That copy is left out here,
// because Write itself copies what the socket does not take.
func serveNbio(o Options) error {
	logging.SetLevel(logging.LevelError)
	engine := nbio.NewEngine(nbio.Config{
		Network: nbio.NETWORK_TCP4,
		Addrs:   []string{o.Addr},
		NPoller: 1,
	})
	engine.OnOpen(func(c *nbio.Conn) { c.SetNoDelay(true) })
	engine.OnData(func(c *nbio.Conn, data []byte) { c.Write(data) })
	if err := engine.Start(); err != nil {
		return err
	}
	addr, err := net.ResolveTCPAddr("tcp4", engine.Addrs[0])
	if err != nil {
		return err
	}
	o.Ready(addr)
	select {}
}
