package inspect

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/internal/sock"
)

// socketRow is a socket as a snapshot has it.
type socketRow struct {
	probe.Socket
	ends *ends
}

// ends is what does not change about a socket. It takes system calls to find out.
type ends struct {
	network, local, peer string
	seen                 time.Duration // when it was seen first, on the inspector's clock
}

// socketReader takes snapshots of the sockets of a loop.
type socketReader struct {
	mu   sync.Mutex // guards the fields below
	at   time.Duration
	held time.Duration
	rows []socketRow
	ends map[uint64]*ends // by token; it does not change
	walk *socketWalk      // in progress, or nil
}

// readSockets returns the sockets of the loop. If the loop does not answer in time it returns
// those of the last time. The snapshot then goes on, and a later call returns it.
func (s *source) readSockets() []socketRow {
	r := &s.sockets
	if rows, isNew := r.latest(); isNew || !s.answers() {
		return rows
	}
	expired, stop := after(snapshotWait)
	defer stop()
	select {
	case <-s.walkSockets():
	case <-s.l.Done():
	case <-expired:
	}
	rows, _ := r.latest()
	return rows
}

// latest returns the last snapshot. It reports whether that is new enough to be shown again.
func (r *socketReader) latest() (rows []socketRow, isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rows, r.isNew()
}

func (r *socketReader) isNew() bool { return r.at != 0 && isRecent(r.at, r.held) }

// walkSockets begins a snapshot, unless there is one in progress or a new one. The channel is
// closed at its end.
func (s *source) walkSockets() (done <-chan struct{}) {
	w, begun := s.sockets.begin()
	var step func()
	step = func() {
		if w.slice(s) {
			s.l.Internal().CallSoon(atclose.Drop, step)
			return
		}
		s.sockets.end(w)
	}
	switch {
	case !begun:
	case s.l.Owns():
		w.finish(s)
		s.sockets.end(w)
	case s.l.Internal().Post(atclose.Drop, step) != nil: // the loop is closed
		s.sockets.forget()
		s.sockets.end(w)
	}
	return w.done
}

// begin begins a snapshot, and reports true. It returns the one in progress if there is one,
// and one that has ended if that is new.
func (r *socketReader) begin() (w *socketWalk, begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.walk != nil:
		return r.walk, false
	case r.isNew():
		w = newSocketWalk(nil)
		close(w.done)
		return w, false
	}
	r.walk = newSocketWalk(r.ends)
	return r.walk, true
}

// end ends a snapshot.
func (r *socketReader) end(w *socketWalk) {
	r.mu.Lock()
	if !w.void {
		r.at, r.held, r.rows, r.ends = now(), w.held, w.rows, w.fresh
	}
	r.walk = nil
	r.mu.Unlock()
	close(w.done)
}

// forget releases the last snapshot, and one in progress at its end.
func (r *socketReader) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.rows = 0, nil
	if r.walk != nil {
		r.walk.void = true
	}
}

// socketWalk is a snapshot of the sockets of a loop, which is taken in slices. Known has what
// earlier snapshots have found out about them. Loop goroutine only until its end.
type socketWalk struct {
	done chan struct{} // closed at its end
	void bool          // it is not kept; guarded by socketReader.mu

	known, fresh map[uint64]*ends
	rows         []socketRow
	held         time.Duration
	next         int // row in the table of descriptors
}

func newSocketWalk(known map[uint64]*ends) *socketWalk {
	return &socketWalk{done: make(chan struct{}), known: known, fresh: make(map[uint64]*ends, len(known))}
}

// finish reads all sockets at once.
func (w *socketWalk) finish(s *source) {
	for w.slice(s) {
	}
}

// slice reads sockets for the time of a slice. It reports whether there are more.
func (w *socketWalk) slice(s *source) (more bool) {
	began := s.l.Time()
	more = true
	for n := 0; n%checkSockets != 0 || n == 0 || s.l.Time()-began < sliceTime; n++ {
		if w.rows, more = s.addSocket(w.rows, w.next, w.known, w.fresh); !more {
			s.addListeners(&w.rows, w.known, w.fresh)
			break
		}
		w.next++
	}
	w.held += s.l.Time() - began
	return more
}

// checkSockets is after how many rows the clock is read.
const checkSockets = 8

// addSocket adds the socket of a row in the table of descriptors. It reports whether there
// are more. It runs on the loop.
func (s *source) addSocket(rows []socketRow, at int, known, fresh map[uint64]*ends) ([]socketRow, bool) {
	w, fd, tok, ok := s.l.Internal().WatchRow(at)
	if !ok || w == nil {
		return rows, ok
	}
	row := socketRow{Socket: probe.Socket{Token: uint64(tok), FD: fd, Kind: "watch", State: "open"}}
	if p, ok := w.(probe.SocketWatcher); ok {
		p.ProbeSocket(&row.Socket)
	}
	row.ends = s.endsOf(&row.Socket, known, fresh)
	return append(rows, row), true
}

// addListeners replaces the rows of listeners, which the table shows as plain watches.
func (s *source) addListeners(rows *[]socketRow, known, fresh map[uint64]*ends) {
	listeners := map[int]bool{} // paused, by descriptor
	s.l.Internal().EachValue(func(v any) {
		if r, ok := v.(probe.Listeners); ok {
			r.EachListener(func(fd int, paused bool) { listeners[fd] = paused })
		}
	})
	for i := range *rows {
		row := &(*rows)[i]
		if paused, ok := listeners[row.FD]; ok {
			row.Kind, row.ReadPaused = "listener", paused
			delete(listeners, row.FD)
		}
	}
	for _, fd := range slices.Sorted(maps.Keys(listeners)) { // not watched now
		row := socketRow{Socket: probe.Socket{Token: uint64(1<<63) | uint64(fd), FD: fd, Kind: "listener", State: "open", ReadPaused: true}}
		row.ends = s.endsOf(&row.Socket, known, fresh)
		*rows = append(*rows, row)
	}
}

// endsOf returns the addresses of a socket. It runs on the loop.
func (s *source) endsOf(row *probe.Socket, known, fresh map[uint64]*ends) *ends {
	e := known[row.Token]
	if e == nil {
		e = &ends{seen: now()}
		k := s.l.Internal().Kernel()
		var local, peer kernel.Addr
		var err error
		if local, err = k.LocalAddr(row.FD); err == nil {
			e.network = sock.NetworkOf(local.Family(), s.typeOf(row))
			e.local = local.String()
		}
		if peer, err = k.PeerAddr(row.FD); err == nil {
			e.peer = peer.String()
		}
	}
	fresh[row.Token] = e
	return e
}

// typeOf returns the type of a socket. A plain watch does not know it, so the system is asked.
func (s *source) typeOf(row *probe.Socket) kernel.Type {
	switch row.Kind {
	case "packet":
		return kernel.Datagram
	case "watch":
		if shape, err := s.l.Internal().Kernel().Native().Shape(row.FD); err == nil {
			return shape.Type
		}
	}
	return kernel.Stream
}

// socket makes the Socket of a row.
func (r *socketRow) socket(loop string) inspectapi.Socket {
	age := int64(now() - r.ends.seen)
	s := inspectapi.Socket{
		ID: socketID(loop, r.Token), Loop: loop, FD: r.FD, Kind: r.Kind,
		Network: r.ends.network, Local: r.ends.local, Peer: r.ends.peer,
		Protocol: r.Protocol, TLS: r.TLS, State: r.State, AgeNS: &age,
		UnsentBytes: r.Unsent, HighWater: r.High, LowWater: r.Low,
		ReadPaused: r.ReadPaused, WritePaused: r.WritePaused, Streams: r.streams(),
	}
	if r.Counted {
		s.InBytes, s.OutBytes = &r.In, &r.Out
	}
	return s
}

func socketID(loop string, tok uint64) string { return loop + ".f" + strconv.FormatUint(tok, 16) }

// streams makes the Streams of a row of an HTTP/2 connection.
func (r *socketRow) streams() *inspectapi.Streams {
	p := r.Socket.Streams
	if p == nil {
		return nil
	}
	all := &inspectapi.Streams{SendWindow: p.SendWindow, ReceiveWindow: p.ReceiveWindow, All: []inspectapi.Stream{}}
	for i := range p.All {
		s := &p.All[i]
		path, _, _ := strings.Cut(s.Request.Target, "?")
		all.All = append(all.All, inspectapi.Stream{
			ID: s.ID, Method: s.Request.Method, Path: path, Phase: s.Request.Phase,
			SendWindow: s.SendWindow, ReceiveWindow: s.ReceiveWindow,
			Queued: s.Queued, Unread: s.Unread, Urgency: s.Urgency,
		})
	}
	return all
}

// eachRequest calls fn for the requests of a row, with the streams that they are on.
func (r *socketRow) eachRequest(fn func(stream uint32, q *probe.Request)) {
	if r.HasRequest {
		fn(0, &r.Request)
	}
	if r.Socket.Streams == nil {
		return
	}
	for i := range r.Socket.Streams.All {
		if s := &r.Socket.Streams.All[i]; s.HasRequest {
			fn(s.ID, &s.Request)
		}
	}
}

// request makes a Request of a row.
func (r *socketRow) request(s *source, tasks map[uintptr]string, stream uint32, from *probe.Request) inspectapi.Request {
	path, _, _ := strings.Cut(from.Target, "?")
	q := inspectapi.Request{
		Loop: s.id, Socket: socketID(s.id, r.Token), Stream: stream, Method: from.Method, Path: path,
		Peer: from.Peer, Phase: from.Phase, Runs: "worker",
		Status: from.Status, Written: from.Written,
		AgeNS: int64(max(s.l.Time()-from.Since, 0)),
	}
	if host, _, err := net.SplitHostPort(q.Peer); err == nil && host == "" {
		q.Peer = r.ends.peer
	}
	if from.Inline {
		q.Runs, q.Task = "inline", tasks[from.Scope]
	}
	return q
}

func (h *handler) sockets(q *query) (any, error) {
	began := now()
	all := []inspectapi.Socket{}
	total := 0
	for _, s := range q.sources() {
		for _, row := range s.readSockets() {
			total++
			if one := row.socket(s.id); q.text == "" || q.found(one.Texts()...) {
				all = append(all, one)
			}
		}
	}
	page, paging := pageOf(q, all, total)
	return inspectapi.SocketsAnswer{Header: h.header(began), Paging: paging, Sockets: page}, nil
}

func (h *handler) requests(q *query) (any, error) {
	began := now()
	all, total := readRequests(q)
	page, paging := pageOf(q, all, total)
	return inspectapi.RequestsAnswer{Header: h.header(began), Paging: paging, Requests: page}, nil
}

// readRequests returns the requests that match, oldest connection first, and the number of
// all.
func readRequests(q *query) (all []inspectapi.Request, total int) {
	all = []inspectapi.Request{}
	for _, s := range q.sources() {
		rows := s.readSockets()
		tasks := s.tasksByScope(rows)
		for i := range rows {
			rows[i].eachRequest(func(stream uint32, from *probe.Request) {
				total++
				if one := rows[i].request(s, tasks, stream, from); q.text == "" || q.found(one.Texts()...) {
					all = append(all, one)
				}
			})
		}
	}
	return all, total
}

// tasksByScope returns the ids of tasks by their scope, if a request needs one.
func (s *source) tasksByScope(rows []socketRow) map[uintptr]string {
	byScope := map[uintptr]string{}
	for i := range rows {
		inline := false
		rows[i].eachRequest(func(_ uint32, from *probe.Request) { inline = inline || from.Inline })
		if inline {
			snap, _ := s.readTasks()
			snap.each(func(r *row) {
				if r.Service {
					byScope[r.Scope] = taskID(s.id, r.ID)
				}
			})
			snap.release()
			break
		}
	}
	return byScope
}
