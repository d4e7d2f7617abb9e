package pyapp

import (
	"context"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"
)

// smallBody is the size of a body that is sent with the head of its request.
const smallBody = 16 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// exchange is a request and its response.
type exchange struct {
	app    *App
	worker *worker
	w      http.ResponseWriter
	r      *http.Request

	c        *conn
	payload  []byte  // the body of the request if it is small
	body     *sender // sends a large one; nil if there is none
	released bool
}

// run exchanges the request for a response. It reports true, and has released the worker, if the
// request should go to another one, because nothing of it was sent.
func (x *exchange) run() (again bool) {
	defer x.release()
	ctx := x.r.Context()
	var err error
	if x.c, err = x.worker.connect(ctx); err != nil {
		if ctx.Err() == nil {
			x.suspect()
			return true
		}
		fail(x.w, x.r)
		return false
	}
	keep := false
	stop := context.AfterFunc(ctx, x.c.close) // Python gets a disconnect
	defer func() {
		stopped := stop()
		if x.body != nil {
			keep = x.body.finish(x.w) && keep
		}
		if keep && stopped {
			x.worker.keep(x.c)
		} else {
			x.c.close()
		}
	}()
	upgrade := upgradeOf(x.r)
	if err := x.readSmall(); err != nil {
		failBody(x.w, x.r, err)
		return false
	}
	if err := x.send(upgrade); err != nil {
		x.suspect()
		if ctx.Err() == nil && x.c.reused {
			x.body = nil
			return true // the worker has closed an idle connection: it has ended
		}
		fail(x.w, x.r)
		return false
	}
	res, err := x.c.readHead(x.r, x.pass)
	if err != nil {
		x.failHead()
		return false
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		if upgrade == "" {
			fail(x.w, x.r)
			return false
		}
		x.tunnel(res)
		return false
	}
	keep = x.respond(res)
	return false
}

// failHead answers a request if the worker did not.
func (x *exchange) failHead() {
	if x.body != nil && !x.body.runs() && x.body.failed != nil {
		failBody(x.w, x.r, x.body.failed)
		return
	}
	x.suspect()
	fail(x.w, x.r)
}

// suspect reports a worker that has broken the connection.
func (x *exchange) suspect() {
	if x.r.Context().Err() == nil {
		x.app.suspect(x.worker)
	}
}

// release ends the request's share of its worker.
func (x *exchange) release() {
	if !x.released {
		x.released = true
		x.app.release(x.worker)
	}
}

// readSmall reads a small body, unless the client waits for a 100 response. A body that was read
// can be sent with the head, and again to another worker.
func (x *exchange) readSmall() error {
	n := x.r.ContentLength
	if n <= 0 || n > smallBody || x.payload != nil || x.r.Header.Get("Expect") != "" {
		return nil
	}
	x.payload = make([]byte, n)
	_, err := io.ReadFull(x.r.Body, x.payload)
	return err
}

// send sends the head, and the body if it is small. Another goroutine sends a large one.
func (x *exchange) send(upgrade string) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	b := append(appendHead((*buffer)[:0], x.r, upgrade), x.payload...)
	if x.payload == nil && hasBody(x.r) && x.r.ContentLength != 0 && !isStreamSocket(x.r) {
		x.body = newSender(x.c, x.r, x.w)
	}
	if cap(b) <= 64<<10 { // a large head does not stay in the pool
		*buffer = b[:cap(b)]
	}
	if _, err := x.c.Write(b); err != nil {
		return err
	}
	if x.body != nil && x.r.Header.Get("Expect") == "" {
		x.body.start()
	}
	return nil
}

// pass passes an informational response on.
func (x *exchange) pass(res *http.Response) {
	if res.StatusCode == http.StatusContinue {
		if x.body != nil {
			x.body.start() // reading the body makes the server send 100
		}
		return
	}
	h := x.w.Header()
	before := maps.Clone(h) // of handlers in front
	clear(h)
	maps.Copy(h, res.Header)
	x.w.WriteHeader(res.StatusCode)
	clear(h)
	maps.Copy(h, before)
}

// respond passes the response on. It reports whether the connection can be used again.
func (x *exchange) respond(res *http.Response) (keep bool) {
	h := x.w.Header()
	for name, values := range res.Header {
		if !hopByHop[name] {
			h[name] = values
		}
	}
	for name := range res.Trailer {
		h.Add("Trailer", name)
	}
	announced := len(res.Trailer)
	x.w.WriteHeader(res.StatusCode)
	if !x.copyBody(res) {
		return false
	}
	for name, values := range res.Trailer {
		if announced == 0 {
			name = http.TrailerPrefix + name
		}
		h[name] = values
	}
	return !res.Close && x.c.in.Buffered() == 0
}

// copyBody copies the body of the response and flushes it when nothing follows at once. It
// reports false if the client has disconnected. It panics, which cuts the response, if the
// worker did not send all of it.
func (x *exchange) copyBody(res *http.Response) bool {
	if res.Body == http.NoBody {
		return true
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	controller := http.NewResponseController(x.w)
	for left := res.ContentLength; ; {
		if left != 0 && x.c.in.Buffered() == 0 {
			_ = controller.Flush()
		}
		n, err := res.Body.Read(*buffer)
		if n > 0 {
			left -= int64(n)
			if _, err := x.w.Write((*buffer)[:n]); err != nil {
				return false
			}
		}
		if err == io.EOF {
			return true
		}
		if err != nil {
			x.suspect()
			panic(http.ErrAbortHandler)
		}
	}
}

// sender sends the body of a request while the response is read.
type sender struct {
	c       *conn
	r       *http.Request
	started bool
	done    chan struct{}
	failed  error // of reading the body; read after done is closed
	whole   bool  // all of the body was sent; read after done is closed
}

func newSender(c *conn, r *http.Request, w http.ResponseWriter) *sender {
	_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/2 needs no such call
	return &sender{c: c, r: r, done: make(chan struct{})}
}

func (s *sender) start() {
	if !s.started {
		s.started = true
		go s.run()
	}
}

func (s *sender) run() {
	s.whole = s.copy() == nil
	close(s.done) // before the connection is closed, so that failHead finds the reason
	if !s.whole {
		s.c.close() // Python gets a disconnect
	}
}

// finish ends the sending after the response, which may be earlier than the end of the body.
// It reports whether all of the body was sent.
func (s *sender) finish(w http.ResponseWriter) bool {
	if s.runs() {
		s.c.close()
		controller := http.NewResponseController(w)
		_ = controller.Flush()
		_ = controller.SetReadDeadline(time.Unix(1, 0)) // ends the reading of the client's body
		<-s.done
		return false
	}
	return s.started && s.whole
}

// runs reports whether the body is being sent.
func (s *sender) runs() bool {
	if !s.started {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// copy copies the body to the worker, in chunks if its length is unknown.
func (s *sender) copy() error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	chunked := s.r.ContentLength < 0
	const before = 8 // for the size of a chunk: six digits and a line end
	for {
		chunk := (*buffer)[before : len(*buffer)-2]
		n, err := s.r.Body.Read(chunk)
		if n > 0 {
			if err := s.write(*buffer, before, n, chunked); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF && chunked:
			return s.end()
		case err == io.EOF:
			return nil
		case err != nil:
			s.failed = err
			return err
		}
	}
}
