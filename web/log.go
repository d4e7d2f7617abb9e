package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// logPanic logs that a handler panicked with v, or called runtime.Goexit if v is nil.
func (sv *Service) logPanic(v any, remote string) {
	switch v {
	case http.ErrAbortHandler:
		return
	case nil:
		v = loop.ErrGoexit
	}
	sv.server.errorLog().Error(withStack("web: handler panicked", v, debug.Stack()), "remote", remote)
}

// withStack returns the log message for a panic. The stack is part of it, as in net/http:
// slog would escape the lines of an attribute.
func withStack(what string, v any, stack []byte) string {
	return fmt.Sprintf("%s: %v\n\n%s", what, v, stack)
}

var errPlain = errors.New("the client sent an HTTP request to an HTTPS port")

// logListen logs that connections cannot be accepted, or that a client's TLS handshake
// has failed. Any scanner can cause the latter, so it is a warning.
func (s *Server) logListen(err error) {
	var op *net.OpError
	if errors.As(err, &op) && op.Op != "accept" {
		if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) && refusePlain(plain.RecordHeader[:]) != nil {
			err = errPlain
		}
		s.errorLog().Warn("web: TLS handshake failed", "remote", fmt.Sprint(op.Addr), "err", err)
		return
	}
	s.errorLog().Error("web: cannot accept", "err", err)
}

// accessLog holds the records of a loop that wait to be written. A logger may block, so a
// worker of the loop writes them, one batch after the other. Loop goroutine only.
type accessLog struct {
	l       *loop.Loop
	to      *slog.Logger // nil for no log
	records []record
	dropped int    // records beyond keepRecords
	busy    bool   // a worker is writing
	ended   func() // called after the last batch; nil before end
}

// record is an answered request.
type record struct {
	remote, method, host, target, proto string
	status                              int
	bytes                               int64
	took                                time.Duration
}

// keepRecords is how many records wait at most. A logger that is slower than the requests
// loses some, and a warning says how many.
const keepRecords = 8192

func (a *accessLog) add(r record) {
	if len(a.records) >= keepRecords {
		a.dropped++
		return
	}
	a.records = append(a.records, r)
	a.write()
}

// write starts a worker that writes the records, unless one is running.
func (a *accessLog) write() {
	if a.busy || len(a.records) == 0 {
		return
	}
	records, dropped := a.records, a.dropped
	_, err := loop.Offload(a.l, func() (struct{}, error) {
		for i := range records {
			records[i].log(a.to)
		}
		if dropped > 0 {
			a.to.Warn("web: the access log is too slow", "lost", dropped)
		}
		return struct{}{}, nil
	}, func(struct{}, error) {
		a.busy = false
		if a.write(); !a.busy && a.ended != nil {
			a.ended()
		}
	})
	if err != nil {
		return // too many jobs wait; the next request tries again
	}
	a.busy = true
	a.records, a.dropped = nil, 0
}

// end calls fn when everything was written.
func (a *accessLog) end(fn func()) {
	if a.write(); !a.busy {
		fn()
		return
	}
	a.ended = fn
}

func (r *record) log(to *slog.Logger) {
	to.LogAttrs(context.Background(), slog.LevelInfo, "request",
		slog.String("remote", r.remote),
		slog.String("method", r.method),
		slog.String("host", r.host),
		slog.String("target", r.target),
		slog.String("proto", r.proto),
		slog.Int("status", r.status),
		slog.Int64("bytes", r.bytes),
		slog.Duration("took", r.took))
}

// log adds a finished exchange to the access log.
func (x *exchange) log() {
	if x.st.log.to == nil {
		return
	}
	r := record{
		remote: x.remote, method: x.method, host: x.w.host, target: x.target, proto: x.proto(),
		status: x.w.status, bytes: x.w.written, took: x.st.l.Time() - x.w.since,
	}
	if x.w.phase == draftTaken && x.w.s == nil {
		r.status = http.StatusSwitchingProtocols
	}
	x.st.log.add(r)
}

// proto returns the version of HTTP.
func (x *exchange) proto() string {
	if x.w.s != nil {
		return protoHTTP2
	}
	return x.version.String()
}

const protoHTTP2 = "HTTP/2.0"

// note copies what the access log needs of a request to a lean handler.
func (lc *LeanCtx) note() {
	a := &lc.c.st.log
	if a.to == nil {
		return
	}
	if hd := lc.hd; hd != nil {
		lc.record = &record{
			remote: lc.c.remoteAddr(), method: hd.Method, host: hd.Authority,
			target: hd.Path, proto: protoHTTP2, took: a.l.Time(),
		}
		return
	}
	lc.record = &record{
		remote: lc.c.remoteAddr(), method: string(lc.p.Method()), host: string(lc.p.Host()),
		target: string(lc.p.Target()), proto: lc.p.Version().String(), took: a.l.Time(),
	}
}

// log adds a lean handler's answer to the access log.
func (lc *LeanCtx) log(size int) {
	if r := lc.record; r != nil {
		a := &lc.c.st.log
		r.status, r.bytes, r.took = lc.status, int64(size), a.l.Time()-r.took
		a.add(*r)
		lc.record = nil
	}
}
