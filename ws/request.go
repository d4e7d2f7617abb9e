package ws

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spindleloop/spindle/internal/http1"
)

// request is a client's handshake, without I/O.
type request struct {
	options    *Options
	address    string // to connect to
	host       string // without the port
	secure     bool
	key        string
	head       []byte // the encoded request
	parser     *http1.ResponseParser
	negotiated negotiated
}

// badURL reports a URL that is not a WebSocket's.
func badURL(rawURL, reason string) error {
	return &url.Error{Op: "ws: dial", URL: rawURL, Err: errors.New(reason)}
}

// newRequest returns the handshake for a URL.
func newRequest(rawURL string, o *Options, rand func() uint64) (*request, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, badURL(rawURL, "malformed URL")
	}
	q := &request{options: o, host: u.Hostname(), secure: u.Scheme == "wss", parser: http1.NewResponseParser(http1.Limits{})}
	switch {
	case u.Scheme != "ws" && u.Scheme != "wss":
		return nil, badURL(u.Redacted(), "the scheme is neither ws nor wss")
	case q.host == "":
		return nil, badURL(u.Redacted(), "no host")
	case u.Fragment != "" || strings.HasSuffix(rawURL, "#"):
		return nil, badURL(u.Redacted(), "a WebSocket has no fragments")
	case u.User != nil:
		return nil, badURL(u.Redacted(), "use Options.Header in place of a user name")
	}
	port := u.Port()
	if port == "" {
		port = "80"
		if q.secure {
			port = "443"
		}
	}
	q.address = net.JoinHostPort(q.host, port)
	var key [16]byte
	binary.LittleEndian.PutUint64(key[:], rand())
	binary.LittleEndian.PutUint64(key[8:], rand())
	q.key = base64.StdEncoding.EncodeToString(key[:])
	return q, q.write(u)
}

func (q *request) write(u *url.URL) error {
	header := q.options.Header.Clone()
	if header == nil {
		header = make(http.Header)
	}
	host := u.Host
	if h := header.Get("Host"); h != "" {
		host = h
	}
	header["Upgrade"] = []string{"websocket"}
	header["Connection"] = []string{"Upgrade"}
	header["Sec-Websocket-Key"] = []string{q.key}
	header["Sec-Websocket-Version"] = []string{version}
	header.Del("Sec-WebSocket-Protocol")
	header.Del("Sec-WebSocket-Extensions")
	for _, p := range q.options.Subprotocols {
		if !isToken(p) {
			return fmt.Errorf("ws: subprotocol %q is not a token", p)
		}
	}
	if len(q.options.Subprotocols) > 0 {
		header["Sec-Websocket-Protocol"] = []string{strings.Join(q.options.Subprotocols, ", ")}
	}
	if q.options.CompressFrom > 0 {
		header["Sec-Websocket-Extensions"] = []string{offer}
	}
	head, err := http1.AppendRequestHead(nil, &http1.RequestHead{
		Method: http.MethodGet,
		Target: u.RequestURI(),
		Host:   http1.WithoutZone(host),
		Header: header,
	})
	q.head = head
	return err
}

// parse consumes part of the response. When the response is complete, done is true
// and rest is the data after it.
func (q *request) parse(data []byte) (rest []byte, done bool, err error) {
	for {
		n, event, err := q.parser.Parse(data)
		if err != nil {
			return nil, false, fmt.Errorf("ws: handshake: %w", err)
		}
		data = data[n:]
		switch event {
		case http1.More:
			return nil, false, nil
		case http1.Head:
			if !q.parser.Interim() {
				if err := q.checkResponse(); err != nil {
					return nil, false, err
				}
			}
		case http1.Switch:
			return data, true, nil
		}
	}
}

// checkResponse checks the header of the response.
func (q *request) checkResponse() error {
	header := make(http.Header)
	q.parser.AddTo(header)
	status := q.parser.Status()
	refuse := func(reason string) error { return &HandshakeError{status, header, reason} }
	accept, protocols := header["Sec-Websocket-Accept"], header["Sec-Websocket-Protocol"]
	switch {
	case status != http.StatusSwitchingProtocols:
		return refuse("the server does not switch")
	case !http1.HasToken(header["Upgrade"], "websocket"), !http1.HasToken(header["Connection"], "upgrade"):
		return refuse("the server switches to something else")
	case len(accept) != 1 || accept[0] != acceptKey(q.key):
		return refuse("Sec-WebSocket-Accept is missing or wrong")
	case len(protocols) > 1 || len(protocols) == 1 && !slices.Contains(q.options.Subprotocols, protocols[0]):
		return refuse("the server has chosen a subprotocol that was not offered")
	}
	x, err := checkAccepted(header["Sec-Websocket-Extensions"], q.options.CompressFrom > 0)
	if err != nil {
		return refuse(err.Error())
	}
	q.negotiated.extension = x
	if len(protocols) == 1 {
		q.negotiated.subprotocol = protocols[0]
	}
	return nil
}

var errHandshakeEnded = errors.New("ws: handshake: the connection ended before the answer was complete")
