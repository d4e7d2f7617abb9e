package ws

import (
	"maps"
	"net/http"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/wsframe"
)

// Accept upgrades a request to a Conn. It works on every server with connections
// that can be hijacked: net/http's for HTTP/1.1, and web's. If Accept refuses the
// request, it sends a response and fails with a *HandshakeError. With web.Server's
// ExtendedConnect it also accepts a stream of HTTP/2, where the request's method is CONNECT.
//
// The handler may use the Conn and must close it; it may also return and leave the
// Conn to other code. The request's context no longer ends with the connection. When
// a server of package web drains, the peer gets a Close with GoingAway.
func Accept(w http.ResponseWriter, r *http.Request, o Options) (*Conn, error) {
	a, answer, refused := o.checkRequest(r)
	if refused != nil {
		refused.respond(w)
		return nil, refused
	}
	head, err := acceptHead(w, r, answer)
	if err != nil {
		http.Error(w, "ws: the response header is invalid", http.StatusInternalServerError)
		return nil, err
	}
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "ws: the server does not support this", http.StatusInternalServerError)
		return nil, err
	}
	early, _ := rw.Reader.Peek(rw.Reader.Buffered())
	c := newConn(nc, o.rules(wsframe.Server, a), early)
	if scope, ok := r.Context().(*spindle.Scope); ok {
		c.now = spindle.LoopOf(scope).Internal().Kernel().Wall
	}
	nc.SetDeadline(time.Time{})
	nc.SetWriteDeadline(c.now().Add(c.rules.closeTimeout))
	if _, err := nc.Write(head); err != nil {
		nc.Close()
		return nil, err
	}
	nc.SetWriteDeadline(time.Time{})
	if server, ok := nc.(interface{ OnShutdown(func()) }); ok {
		server.OnShutdown(func() { _ = c.Close(GoingAway, "") }) // fails only if the Conn is closing already
	}
	return c, nil
}

// acceptHead returns the response to write to the connection. On a stream of HTTP/2 the server
// writes it.
func acceptHead(w http.ResponseWriter, r *http.Request, answer http.Header) ([]byte, error) {
	if r.ProtoMajor == 2 {
		maps.Copy(w.Header(), answer)
		w.WriteHeader(http.StatusOK)
		return nil, nil
	}
	return http1.AppendResponseHead(nil, &http1.ResponseHead{
		Status: http.StatusSwitchingProtocols,
		Header: answer,
		Length: http1.Unframed,
	})
}
