package ws

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"time"

	"github.com/spindleloop/spindle/internal/wsframe"
)

// AcceptOn is Accept on a connection without a server.
func AcceptOn(nc net.Conn, o Options) (*Conn, error) {
	br := bufio.NewReader(nc)
	r, err := http.ReadRequest(br)
	if err != nil {
		return nil, err
	}
	return Accept(&hijackable{nc: nc, rw: bufio.NewReadWriter(br, bufio.NewWriter(nc)), header: make(http.Header)}, r, o)
}

type hijackable struct {
	nc     net.Conn
	rw     *bufio.ReadWriter
	header http.Header
}

func (h *hijackable) Header() http.Header                          { return h.header }
func (h *hijackable) Write(p []byte) (int, error)                  { return h.nc.Write(p) }
func (h *hijackable) WriteHeader(int)                              {}
func (h *hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.nc, h.rw, nil }

// Negotiate returns a server's response to an offer, and a client's verdict on it.
func Negotiate(offer string) (answer string, err error) {
	x, err := acceptOffer([]string{offer})
	if err != nil || !x.deflate {
		return "", err
	}
	_, err = checkAccepted([]string{x.response()}, true)
	return x.response(), err
}

// Compressed reports whether permessage-deflate was negotiated.
func (c *Conn) Compressed() bool { return c.rules.limits.Deflate }

var (
	ErrNoAnswer     = errNoAnswer
	ErrCloseTimeout = errCloseTimeout
)

// SetPingInterval replaces Options.PingInterval.
func (s *Socket) SetPingInterval(d time.Duration) { s.setPingInterval(d) }

// LingerTime is how long a peer has to read the last frame.
const LingerTime = lingerTime

// WritePing sends a ping, as Options.PingInterval does.
func WritePing(ctx context.Context, c *Conn) error {
	return c.writeFrame(ctx, wsframe.OpPing, wsframe.Fin, nil)
}
