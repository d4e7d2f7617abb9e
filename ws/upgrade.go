package ws

import (
	"errors"
	"net/http"

	"github.com/spindleloop/spindle/internal/wsframe"
	"github.com/spindleloop/spindle/web"
)

// Upgrade upgrades a request to a web.Server to a Socket, and calls h on the
// connection's loop. Handlers of any kind may call it, and have nothing more to do.
// If Upgrade refuses the request, it sends a response and fails with a
// *HandshakeError. If w is not of package web, it fails with an error that wraps
// errors.ErrUnsupported; use Accept there.
func Upgrade(w http.ResponseWriter, r *http.Request, h Handler, o Options) error {
	a, answer, refused := o.checkRequest(r)
	if refused != nil {
		refused.respond(w)
		return refused
	}
	err := web.Upgrade(w, r, answer, (*protocol)(newSocket(h, o.rules(wsframe.Server, a))))
	if errors.Is(err, errors.ErrUnsupported) {
		http.Error(w, "ws: the server does not support this", http.StatusInternalServerError)
	}
	return err
}
