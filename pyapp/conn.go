package pyapp

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"
)

// maxIdle is how many idle connections to a worker are kept.
const maxIdle = 512

// conn is a connection to a worker. One request at a time uses it.
type conn struct {
	net.Conn
	in     *bufio.Reader // nil while idle
	reused bool
}

func (c *conn) close() { _ = c.Close() }

var pooledReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

// connect returns a connection to the worker: an idle one, or a new one.
func (w *worker) connect(ctx context.Context) (*conn, error) {
	w.a.mu.Lock()
	var c *conn
	if last := len(w.idle) - 1; last >= 0 {
		c = w.idle[last]
		w.idle[last] = nil
		w.idle = w.idle[:last]
		c.reused = true
	}
	w.a.mu.Unlock()
	if c == nil {
		var d net.Dialer
		to, err := d.DialContext(ctx, "unix", w.socket)
		if err != nil {
			return nil, err
		}
		c = &conn{Conn: to}
	}
	c.in = pooledReaders.Get().(*bufio.Reader)
	c.in.Reset(c)
	return c, nil
}

// keep keeps a connection for another request.
func (w *worker) keep(c *conn) {
	c.dropReader()
	w.a.mu.Lock()
	kept := !w.exited && !w.leaving && len(w.idle) < maxIdle
	if kept {
		w.idle = append(w.idle, c)
	}
	w.a.mu.Unlock()
	if !kept {
		c.close()
	}
}

// dropReader returns the reader to the pool. No goroutine may read from c after that.
func (c *conn) dropReader() {
	c.in.Reset(nil)
	pooledReaders.Put(c.in)
	c.in = nil
}

// readHead reads the head of a response, and informational ones before it, which pass gets.
func (c *conn) readHead(r *http.Request, pass func(*http.Response)) (*http.Response, error) {
	for {
		res, err := http.ReadResponse(c.in, r)
		if err != nil {
			return nil, err
		}
		if res.StatusCode >= 200 || res.StatusCode == http.StatusSwitchingProtocols {
			return res, nil
		}
		pass(res)
	}
}
