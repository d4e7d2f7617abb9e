package ws

import (
	"bufio"
	"bytes"
	"net"
	"net/http"

	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/transport"
)

// RawServer shakes hands on bare transports, and makes Sockets.
func RawServer(o Options, handler func() Handler) func() transport.Protocol {
	return func() transport.Protocol { return &rawServer{o: o, handler: handler} }
}

type rawServer struct {
	o       Options
	handler func() Handler
	head    []byte
}

func (p *rawServer) ConnectionMade(c *transport.Conn)            {}
func (p *rawServer) ConnectionLost(c *transport.Conn, err error) {}

func (p *rawServer) DataReceived(c *transport.Conn, data []byte) {
	p.head = append(p.head, data...)
	head, early, ok := bytes.Cut(p.head, []byte("\r\n\r\n"))
	if !ok {
		return
	}
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(p.head[:len(head)+4])))
	if err != nil {
		c.Abort()
		return
	}
	a, answer, refused := p.o.check(r)
	if refused != nil {
		c.Abort()
		return
	}
	b, err := http1.AppendResponseHead(nil, &http1.ResponseHead{Status: 101, Header: answer, Length: http1.Unframed})
	if err != nil {
		panic(err)
	}
	c.Write(b)
	s := (*protocol)(newSocket(p.handler(), p.o.serverRules(a), a.subprotocol))
	c.SetProtocol(s)
	s.ConnectionMade(c)
	if len(early) > 0 {
		s.DataReceived(c, early)
	}
}

// AcceptOn is Accept on a connection that no server has.
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

// LingerTime is how long a peer has to read the last word.
const LingerTime = lingerTime
