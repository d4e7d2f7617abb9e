package web

import (
	"sync"

	"github.com/spindleloop/spindle/internal/atclose"
)

// workers runs handlers on goroutines, which it reuses. Any goroutine.
type workers struct {
	limit int // of goroutines

	mu      sync.Mutex
	idle    []*worker   // the last one is the next to work; guarded by mu
	count   int         // of goroutines; guarded by mu
	waiting []*exchange // for a worker, oldest first; guarded by mu
	closed  bool        // guarded by mu
}

// keepWorkers is how many goroutines are kept for the next request.
const keepWorkers = 256

// worker is a goroutine that waits for its next request.
type worker struct{ next chan *exchange }

// run lets a worker serve x. The number of exchanges that wait for a worker is bounded by
// the number of connections, as each has one request at a time.
func (ws *workers) run(x *exchange) {
	ws.mu.Lock()
	last := len(ws.idle) - 1
	switch {
	case last >= 0:
		w := ws.idle[last]
		ws.idle[last] = nil
		ws.idle = ws.idle[:last]
		ws.mu.Unlock()
		w.next <- x
	case !x.st.l.Internal().Kernel().Real(): // there are no idle workers then
		ws.mu.Unlock()
		x.st.l.CallSoon(func() { panic(simulatedHandler) }) // fails the run, not only this connection
	case ws.count < ws.limit:
		ws.count++
		ws.mu.Unlock()
		x.st.l.Internal().Kernel().Start(func() { ws.serve(x) })
	default:
		ws.waiting = append(ws.waiting, x)
		ws.mu.Unlock()
	}
}

// simulatedHandler is the panic for a request to a handler that is not inline on a
// simulated loop.
const simulatedHandler = "web: a handler runs on a goroutine, which a simulated run cannot have; wrap it, or the whole router, in web.Inline"

// serve is a worker's goroutine. If a handler ends it by Goexit, another takes its place.
func (ws *workers) serve(x *exchange) {
	var st *loopState
	returned := false
	defer func() {
		if returned {
			return
		}
		if next := ws.take(); next != nil {
			st.l.Internal().Kernel().Start(func() { ws.serve(next) })
		}
	}()
	w := &worker{make(chan *exchange, 1)}
	for x != nil {
		st = x.st
		x.serve(&x.ctx)
		x = ws.next(w)
	}
	returned = true
}

// next waits for the exchange that w serves next. It returns nil if w should end.
func (ws *workers) next(w *worker) *exchange {
	ws.mu.Lock()
	if len(ws.waiting) > 0 {
		defer ws.mu.Unlock()
		return ws.pop()
	}
	if ws.closed || len(ws.idle) >= keepWorkers {
		ws.count--
		ws.mu.Unlock()
		return nil
	}
	ws.idle = append(ws.idle, w)
	ws.mu.Unlock()
	return <-w.next
}

// take returns a waiting exchange for the successor of a worker that has ended. It returns
// nil if there is none.
func (ws *workers) take() *exchange {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.waiting) > 0 {
		return ws.pop()
	}
	ws.count--
	return nil
}

func (ws *workers) pop() *exchange {
	x := ws.waiting[0]
	ws.waiting[0] = nil
	ws.waiting = ws.waiting[1:]
	return x
}

// close ends the idle workers; the others end when their handlers return.
func (ws *workers) close() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.closed = true
	ws.count -= len(ws.idle)
	for _, w := range ws.idle {
		close(w.next)
	}
	ws.idle = nil
}

// deliver passes an exchange to the loop when its handler has returned, from any goroutine.
// One callback takes all exchanges that finish together.
func (st *loopState) deliver(x *exchange) {
	st.mu.Lock()
	first := len(st.finished) == 0
	st.finished = append(st.finished, x)
	st.mu.Unlock()
	if first {
		_ = st.l.Internal().Post(atclose.Drop, st.take) // a closed loop has no connections
	}
}

func (st *loopState) takeFinished() {
	st.mu.Lock()
	all := st.finished
	st.finished = st.taken[:0]
	st.mu.Unlock()
	for i, x := range all {
		all[i] = nil
		x.finish()
	}
	if len(st.dirty) > 0 {
		st.flushDirty()
	}
	st.mu.Lock()
	st.taken = all[:0]
	st.mu.Unlock()
}
