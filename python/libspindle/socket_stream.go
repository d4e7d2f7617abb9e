//go:build spindle_python

package main

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/ws"
)

// link is an open WebSocket: a connection, or a stream of HTTP/2. Loop goroutine only.
type link interface {
	Send(kind ws.Kind, message []byte) error
	Close(code ws.Code, reason string) error
	PauseReading()
	ResumeReading()
	unsent() int
	whenSent(fn func())
}

// wholeLink is the link of a WebSocket that has a connection of its own.
type wholeLink struct{ *ws.Socket }

func (l wholeLink) unsent() int        { return l.Conn().Unsent() }
func (l wholeLink) whenSent(fn func()) { l.Conn().AfterFlush(func(error) { fn() }) }

// streamLink is the link of a WebSocket on a stream. A goroutine reads and another one writes, because
// package ws has callbacks for connections only.
type streamLink struct {
	so *socket
	c  *ws.Conn

	paused bool          // the reader waits for next; loop goroutine only
	next   chan struct{} // lets the reader go on
	broken chan struct{} // closed by the writer when a write has failed: the reader finds out why

	mu     sync.Mutex
	change *sync.Cond     // of what follows
	queue  []func() error // guarded by mu
	bytes  int            // in queue, and in what is being written; guarded by mu
	sent   func()         // called on the loop when bytes is 0; guarded by mu
	ended  bool           // guarded by mu
}

// onStream reports whether a request opens a WebSocket on a stream of HTTP/2 (RFC 8441).
func onStream(hd *http2.Header) bool {
	return hd.Method == http.MethodConnect && hd.Protocol == "websocket"
}

// isStreamSocket is onStream for a request of the handler.
func isStreamSocket(req *http.Request) bool {
	return req.ProtoMajor == 2 && req.Method == http.MethodConnect && slices.Equal(req.Header[":protocol"], []string{"websocket"})
}

// acceptStream opens the WebSocket on a stream.
func (so *socket) acceptStream(w http.ResponseWriter, req *http.Request, o ws.Options) error {
	c, err := ws.Accept(w, req, o)
	if err != nil {
		return err
	}
	l := &streamLink{so: so, c: c, next: make(chan struct{}, 1), broken: make(chan struct{})}
	l.change = sync.NewCond(&l.mu)
	if err := so.r.s.p.l.Post(func() { so.opened(l) }); err != nil {
		_ = c.CloseNow()
		return nil
	}
	go l.read()
	go l.write()
	return nil
}

// read passes messages to the loop, one at a time.
func (l *streamLink) read() {
	post := l.so.r.s.p.l.Post
	for {
		kind, message, err := l.c.Read(context.Background())
		if err == ws.ErrBusy { // Close reads the client's answer, and lets this goroutine go on then
			<-l.next
			continue
		}
		if err != nil {
			l.end()
			_ = post(func() { l.so.OnClose(nil, err) })
			return
		}
		message = slices.Clone(message) // a Close may read before the loop has copied it
		err = post(func() {
			if l.so.message(kind, message); !l.paused {
				l.goOn()
			}
		})
		if err != nil {
			l.end()
			_ = l.c.CloseNow() // the loop has ended
			return
		}
		select {
		case <-l.next:
		case <-l.broken: // the next Read fails, even if the app wants no more messages
		}
	}
}

// write writes what is queued.
func (l *streamLink) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	failed := false
	for {
		for len(l.queue) == 0 && !l.ended {
			l.change.Wait()
		}
		if l.ended {
			return
		}
		queue := l.queue
		l.queue = nil
		before := l.bytes
		l.mu.Unlock()
		for _, do := range queue {
			if do() != nil && !failed {
				failed = true
				close(l.broken)
			}
		}
		l.mu.Lock()
		if l.bytes -= before; l.bytes == 0 && l.sent != nil {
			_ = l.so.r.s.p.l.Post(l.sent)
			l.sent = nil
		}
	}
}

// end ends the writer. What is queued can no longer be sent.
func (l *streamLink) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.change.Signal()
}

func (l *streamLink) add(size int, do func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, do)
	l.bytes += size
	l.change.Signal()
}

func (l *streamLink) Send(kind ws.Kind, message []byte) error {
	message = slices.Clone(message)
	l.add(len(message)+1, func() error { return l.c.Write(context.Background(), kind, message) })
	return nil
}

func (l *streamLink) Close(code ws.Code, reason string) error {
	l.add(1, func() error {
		defer l.goOn()
		if err := l.c.Close(code, reason); err == nil || l.c.Close(ws.InternalError, "") == nil {
			return nil
		}
		return l.c.CloseNow()
	})
	return nil
}

func (l *streamLink) PauseReading() { l.paused = true }

func (l *streamLink) ResumeReading() {
	if l.paused {
		l.paused = false
		l.goOn()
	}
}

// goOn lets the reader read the next message, or find out that the WebSocket has ended.
func (l *streamLink) goOn() {
	select {
	case l.next <- struct{}{}:
	default: // it will go on anyway
	}
}

func (l *streamLink) unsent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

func (l *streamLink) whenSent(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes == 0 {
		_ = l.so.r.s.p.l.Post(fn)
		return
	}
	l.sent = fn
}
