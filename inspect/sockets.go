package inspect

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

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
	mu   sync.Mutex // held during a snapshot
	at   time.Duration
	held time.Duration
	rows []socketRow
	ends map[uint64]*ends // by token
}

// readSockets returns the sockets of the loop. If the loop does not answer it returns those
// of the last time.
func (s *source) readSockets() []socketRow {
	r := &s.sockets
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at != 0 && now()-r.at < max(snapshotAge, snapshotShare*r.held) {
		return r.rows
	}
	if !s.answers() {
		return r.rows
	}
	expired, stop := after(snapshotWait)
	defer stop()
	rows, fresh, held, ok := s.takeSockets(expired, r.ends)
	if !ok {
		return r.rows
	}
	r.at, r.held, r.rows, r.ends = now(), held, rows, fresh
	return rows
}

// takeSockets takes a snapshot of the sockets in slices. Known has what earlier snapshots
// have found out about them. It reports false if the loop does not answer before expired
// receives a value; what it has begun on the loop may then still be running, and has the
// variables to itself.
func (s *source) takeSockets(expired <-chan time.Time, known map[uint64]*ends) ([]socketRow, map[uint64]*ends, time.Duration, bool) {
	var rows []socketRow
	var held time.Duration
	fresh := make(map[uint64]*ends, len(known))
	next, more := 0, true
	for more {
		if !s.ask(expired, func() {
			began := s.l.Time()
			for n := 0; n%checkSockets != 0 || n == 0 || s.l.Time()-began < sliceTime; n++ {
				if rows, more = s.addSocket(rows, next, known, fresh); !more {
					s.addListeners(&rows, known, fresh)
					break
				}
				next++
			}
			held += s.l.Time() - began
		}) {
			return nil, nil, 0, false
		}
	}
	return rows, fresh, held, true
}

// checkSockets is after how many rows the clock is read.
const checkSockets = 8

// addSocket adds the socket of a row in the table of descriptors. It reports whether there
// are more. It runs on the loop.
func (s *source) addSocket(rows []socketRow, at int, known, fresh map[uint64]*ends) ([]socketRow, bool) {
	w, tok, ok := s.core.WatchRow(at)
	if !ok || w == nil {
		return rows, ok
	}
	row := socketRow{Socket: probe.Socket{Token: uint64(tok), FD: int(w.FD), Kind: "watch", State: "open"}}
	if p, ok := w.Watcher.(probe.SocketWatcher); ok {
		p.ProbeSocket(&row.Socket)
	}
	row.ends = s.endsOf(row.Token, row.FD, known, fresh)
	return append(rows, row), true
}

// addListeners replaces the rows of listeners, which the table shows as plain watches.
func (s *source) addListeners(rows *[]socketRow, known, fresh map[uint64]*ends) {
	listeners := map[int]bool{} // paused, by descriptor
	s.core.EachValue(func(v any) {
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
		row.ends = s.endsOf(row.Token, fd, known, fresh)
		*rows = append(*rows, row)
	}
}

// endsOf returns the addresses of a socket. It runs on the loop.
func (s *source) endsOf(tok uint64, fd int, known, fresh map[uint64]*ends) *ends {
	e := known[tok]
	if e == nil {
		e = &ends{seen: now()}
		k := s.core.Kernel()
		var local, peer kernel.Addr
		var err error
		if local, err = k.LocalAddr(fd); err == nil {
			e.network = sock.NetworkOf(local.Family())
			e.local = local.String()
		}
		if peer, err = k.PeerAddr(fd); err == nil {
			e.peer = peer.String()
		}
	}
	fresh[tok] = e
	return e
}

// socket makes the Socket of a row.
func (r *socketRow) socket(loop string) Socket {
	age := int64(now() - r.ends.seen)
	s := Socket{
		ID: socketID(loop, r.Token), Loop: loop, FD: r.FD, Kind: r.Kind,
		Network: r.ends.network, Local: r.ends.local, Peer: r.ends.peer,
		Protocol: r.Protocol, TLS: r.TLS, State: r.State, AgeNS: &age,
		UnsentBytes: r.Unsent, HighWater: r.High, LowWater: r.Low,
		ReadPaused: r.ReadPaused, WritePaused: r.WritePaused,
	}
	if r.Counted {
		s.InBytes, s.OutBytes = &r.In, &r.Out
	}
	return s
}

func socketID(loop string, tok uint64) string { return loop + ".f" + strconv.FormatUint(tok, 16) }

// request makes the Request of a row that has one.
func (r *socketRow) request(s *source, tasks map[uintptr]string) Request {
	path, _, _ := strings.Cut(r.Request.Target, "?")
	q := Request{
		Loop: s.id, Socket: socketID(s.id, r.Token), Method: r.Request.Method, Path: path,
		Peer: r.Request.Peer, Phase: r.Request.Phase, Runs: "worker",
		Status: r.Request.Status, Written: r.Request.Written,
		AgeNS: int64(max(s.l.Time()-r.Request.Since, 0)),
	}
	if host, _, err := net.SplitHostPort(q.Peer); err == nil && host == "" {
		q.Peer = r.ends.peer
	}
	if r.Request.Inline {
		q.Runs, q.Task = "inline", tasks[r.Request.Scope]
	}
	return q
}

func (h *handler) sockets(q *query) (any, error) {
	began := now()
	all := []Socket{}
	total := 0
	for _, s := range q.sources() {
		for _, row := range s.readSockets() {
			total++
			if one := row.socket(s.id); q.text == "" || q.found(one.texts()...) {
				all = append(all, one)
			}
		}
	}
	page, paging := pageOf(q, all, total)
	return SocketsAnswer{Header: h.header(began), Paging: paging, Sockets: page}, nil
}

func (h *handler) requests(q *query) (any, error) {
	began := now()
	all, total := readRequests(q)
	page, paging := pageOf(q, all, total)
	return RequestsAnswer{Header: h.header(began), Paging: paging, Requests: page}, nil
}

// readRequests returns the requests that match, oldest connection first, and the number of
// all.
func readRequests(q *query) (all []Request, total int) {
	all = []Request{}
	for _, s := range q.sources() {
		rows := s.readSockets()
		tasks := s.tasksByScope(rows)
		for i := range rows {
			if !rows[i].HasRequest {
				continue
			}
			total++
			if one := rows[i].request(s, tasks); q.text == "" || q.found(one.texts()...) {
				all = append(all, one)
			}
		}
	}
	return all, total
}

// tasksByScope returns the ids of tasks by their scope, if a request needs one.
func (s *source) tasksByScope(rows []socketRow) map[uintptr]string {
	byScope := map[uintptr]string{}
	for i := range rows {
		if rows[i].HasRequest && rows[i].Request.Inline {
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
