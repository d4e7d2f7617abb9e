package ws

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spindleloop/spindle/internal/http1"
)

// HandshakeError reports why a handshake failed: the request is not a valid upgrade,
// or the response does not accept it.
type HandshakeError struct {
	// Status is the status of the response: received by a client, or sent by a
	// server.
	Status int

	// Header is the header of the response that a client received; nil on a server.
	Header http.Header

	// Reason says what is wrong.
	Reason string
}

func (e *HandshakeError) Error() string {
	return fmt.Sprintf("ws: handshake: %s (status %d)", e.Reason, e.Status)
}

// version is the only version of the protocol.
const version = "13"

// negotiated is the outcome of a handshake.
type negotiated struct {
	subprotocol string
	extension   extension
}

// checkRequest checks a request and returns the header of the response to it.
func (o *Options) checkRequest(r *http.Request) (a negotiated, answer http.Header, refused *HandshakeError) {
	refuse := func(status int, reason string) (negotiated, http.Header, *HandshakeError) {
		return a, nil, &HandshakeError{Status: status, Reason: reason}
	}
	keys := r.Header["Sec-Websocket-Key"]
	onStream := r.ProtoMajor == 2
	switch {
	case onStream && (r.Method != http.MethodConnect || len(r.Header[":protocol"]) != 1 || r.Header[":protocol"][0] != "websocket"):
		return refuse(http.StatusBadRequest, "this is for WebSocket only")
	case onStream:
	case r.Method != http.MethodGet:
		return refuse(http.StatusMethodNotAllowed, "the method is not GET")
	case !r.ProtoAtLeast(1, 1):
		return refuse(http.StatusBadRequest, "HTTP/1.0 cannot be upgraded")
	case !http1.HasToken(r.Header["Connection"], "upgrade"), !http1.HasToken(r.Header["Upgrade"], "websocket"):
		return refuse(http.StatusUpgradeRequired, "this is for WebSocket only")
	}
	switch {
	case len(r.Header["Sec-Websocket-Version"]) != 1 || r.Header["Sec-Websocket-Version"][0] != version:
		return refuse(http.StatusUpgradeRequired, "the version of WebSocket is not 13")
	case !onStream && (len(keys) != 1 || !isValidKey(keys[0])):
		return refuse(http.StatusBadRequest, "Sec-WebSocket-Key is missing or malformed")
	case !onStream && r.ContentLength != 0:
		return refuse(http.StatusBadRequest, "the request has a body")
	case !o.originAllowed(r):
		return refuse(http.StatusForbidden, "the page's origin is not allowed")
	}
	wanted, ok := tokens(r.Header["Sec-Websocket-Protocol"])
	if !ok {
		return refuse(http.StatusBadRequest, "malformed Sec-WebSocket-Protocol")
	}
	x, err := acceptOffer(r.Header["Sec-Websocket-Extensions"])
	if err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	if o.CompressFrom > 0 {
		a.extension = x
	}
	answer = o.Header.Clone()
	if answer == nil {
		answer = make(http.Header)
	}
	if !onStream {
		answer["Upgrade"] = []string{"websocket"}
		answer["Connection"] = []string{"Upgrade"}
		answer["Sec-Websocket-Accept"] = []string{acceptKey(keys[0])}
	}
	for _, p := range o.Subprotocols {
		if slices.Contains(wanted, p) {
			a.subprotocol = p
			answer["Sec-Websocket-Protocol"] = []string{p}
			break
		}
	}
	if a.extension.deflate {
		answer["Sec-Websocket-Extensions"] = []string{a.extension.response()}
	}
	return a, answer, nil
}

// respond writes the response that refuses a request.
func (e *HandshakeError) respond(w http.ResponseWriter) {
	if e.Status == http.StatusUpgradeRequired {
		w.Header()["Upgrade"] = []string{"websocket"}
		w.Header()["Connection"] = []string{"Upgrade"}
		w.Header()["Sec-WebSocket-Version"] = []string{version}
	}
	http.Error(w, "ws: "+e.Reason, e.Status)
}

// originAllowed reports whether the page that the request comes from may connect.
func (o *Options) originAllowed(r *http.Request) bool {
	if o.CheckOrigin != nil {
		return o.CheckOrigin(r)
	}
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return true
	}
	u, err := url.Parse(origins[0])
	return err == nil && len(origins) == 1 && strings.EqualFold(u.Host, r.Host)
}

// isValidKey reports whether s is 16 bytes in base64.
func isValidKey(s string) bool {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	return err == nil && len(b) == 16
}

// acceptKey returns the value that proves that the server has read the key.
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// tokens returns the elements of a list. Ok is false if one of them is not a token.
func tokens(fields []string) (list []string, ok bool) {
	ok = true
	for _, f := range fields {
		for t := range strings.SplitSeq(f, ",") {
			t = strings.Trim(t, " \t")
			if t == "" {
				continue
			}
			ok = ok && isToken(t)
			list = append(list, t)
		}
	}
	return list, ok
}
