package ws

import (
	"errors"
	"net/http"

	"github.com/spindleloop/spindle/web"
)

// Upgrade makes a Socket of a request to a web.Server, and has h be told of it on the
// connection's loop; the handler that calls it can be of any kind, and has nothing
// more to do. A request that is refused is answered, and fails with a
// *HandshakeError. If w is not of package web, it fails with what is
// errors.ErrUnsupported: there, use Accept.
func Upgrade(w http.ResponseWriter, r *http.Request, h Handler, o Options) error {
	a, answer, refused := o.check(r)
	if refused != nil {
		refused.refuse(w)
		return refused
	}
	err := web.Upgrade(w, r, answer, (*protocol)(newSocket(h, o.serverRules(a), a.subprotocol)))
	if errors.Is(err, errors.ErrUnsupported) {
		http.Error(w, "ws: the server cannot do this", http.StatusInternalServerError)
	}
	return err
}
