package web

import (
	"runtime"
	"sync"

	"github.com/spindleloop/spindle/internal/loopcore"
)

// workers run handlers on goroutines, which are used again. Any goroutine.
type workers struct {
	most int

	mu      sync.Mutex
	idle    []*worker   // the last to come is the next to work; guarded by mu
	count   int         // of goroutines; guarded by mu
	waiting []*exchange // for one, oldest first; guarded by mu
	closed  bool        // guarded by mu
}

// keepWorkers is how many goroutines are kept for the next request.
const keepWorkers = 256

// worker is a goroutine that waits for its next request.
type worker struct{ next chan *exchange }

// run has a worker serve x. What has to wait for one is bounded by the number of
// connections, as each has one request at a time.
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
		x.st.l.CallSoon(func() { panic(simulatedHandler) }) // the run is to fail, and not this connection
	case ws.count < ws.most:
		ws.count++
		ws.mu.Unlock()
		x.st.l.Internal().Kernel().Start(func() { ws.serve(x) })
	default:
		ws.waiting = append(ws.waiting, x)
		ws.mu.Unlock()
	}
}

// simulatedHandler is the panic of a simulated loop that has a request for a handler
// that is not inline.
const simulatedHandler = "web: a handler runs on a goroutine, which a simulated run cannot have; wrap it, or the whole router, in web.Inline"

// serve is a worker's life. If a handler ends the goroutine, by Goexit, another takes
// its place.
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

// next is the request that w serves next; nil if it is to end.
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

// take is the next request for a worker that has ended; nil if there is none.
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

// close ends the workers that wait; the others end with their handlers.
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

// deliver brings the loop an exchange whose handler has returned, from any
// goroutine. Those that come together are taken together.
func (st *loopState) deliver(x *exchange) {
	st.mu.Lock()
	first := len(st.finished) == 0
	st.finished = append(st.finished, x)
	st.mu.Unlock()
	if first {
		_ = st.l.Internal().Post(loopcore.DropAtClose, st.take) // a loop that is closed has no connections
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
	st.mu.Lock()
	st.taken = all[:0]
	st.mu.Unlock()
}

func (st *loopState) letWorkersRun() {
	st.yields = false
	runtime.Gosched()
}
