package peers

import (
	"net"

	"github.com/xtaci/gaio"
)

// serveGaio follows gaio's echo example: one watcher, and for each connection one buffer
// for reading and writing.
func serveGaio(o Options) error {
	w, err := gaio.NewWatcher()
	if err != nil {
		return err
	}
	defer w.Close()
	ln, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return err
	}
	go echoGaio(w) // ends when the watcher is closed
	o.Ready(ln.Addr())
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		if err := w.Read(nil, conn, make([]byte, o.BufferBytes)); err != nil {
			return err
		}
	}
}

// echoGaio handles completions until the watcher is closed. It frees connections that
// ended, so that the connections of a round do not remain in the next one.
func echoGaio(w *gaio.Watcher) {
	for {
		results, err := w.WaitIO()
		if err != nil {
			return
		}
		for _, r := range results {
			switch {
			case r.Error != nil:
				w.Free(r.Conn)
			case r.Operation == gaio.OpRead:
				w.Write(nil, r.Conn, r.Buffer[:r.Size])
			case r.Operation == gaio.OpWrite:
				w.Read(nil, r.Conn, r.Buffer[:cap(r.Buffer)])
			}
		}
	}
}
