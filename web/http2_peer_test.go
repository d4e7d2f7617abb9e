package web_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/web"
)

// The frames of HTTP/2 that a peer sends and receives.
const (
	dataFrame         = 0x0
	headersFrame      = 0x1
	priorityFrame     = 0x2
	resetFrame        = 0x3
	settingsFrame     = 0x4
	pingFrame         = 0x6
	goAwayFrame       = 0x7
	windowFrame       = 0x8
	continuationFrame = 0x9

	priorityUpdateFrame = 0x10

	endStream  = 0x1
	endHeaders = 0x4
	ack        = 0x1
)

// frame is a frame that a peer has received.
type frame struct {
	kind, flags byte
	id          uint32
	payload     []byte
}

func (f frame) code() http2.Code {
	if f.kind == goAwayFrame {
		_, code := f.goAway()
		return code
	}
	return http2.Code(binary.BigEndian.Uint32(f.payload[len(f.payload)-4:]))
}

// goAway returns the last stream and the code of a GOAWAY.
func (f frame) goAway() (last uint32, code http2.Code) {
	return binary.BigEndian.Uint32(f.payload), http2.Code(binary.BigEndian.Uint32(f.payload[4:]))
}

// peer is a client that sends frames as a test says.
type peer struct {
	t   testing.TB
	nc  net.Conn
	br  *bufio.Reader
	enc *hpack.Encoder
	buf bytes.Buffer
	dec *hpack.Decoder

	left bool // response has seen a GOAWAY
}

// plainHTTP2 makes s speak HTTP/2 on plain connections, beside HTTP/1.1.
func plainHTTP2(s *web.Server) *web.Server {
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// dialPeer connects and sends the preface and SETTINGS, which are pairs of numbers.
func dialPeer(t testing.TB, sv *web.Service, settings ...uint32) *peer {
	t.Helper()
	nc, err := net.Dial("tcp", sv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return newPeer(t, nc, settings...)
}

// newPeer is a peer on a connection, to which it sends the preface and SETTINGS.
func newPeer(t testing.TB, nc net.Conn, settings ...uint32) *peer {
	nc.SetDeadline(time.Now().Add(30 * time.Second))
	p := &peer{t: t, nc: nc, br: bufio.NewReader(nc), dec: hpack.NewDecoder(4096, nil)}
	p.enc = hpack.NewEncoder(&p.buf)
	io.WriteString(nc, http2.Preface)
	var s []byte
	for i := 0; i < len(settings); i += 2 {
		s = binary.BigEndian.AppendUint16(s, uint16(settings[i]))
		s = binary.BigEndian.AppendUint32(s, settings[i+1])
	}
	p.send(settingsFrame, 0, 0, s)
	return p
}

func appendFrame(b []byte, kind, flags byte, id uint32, payload []byte) []byte {
	n := len(payload)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	b = binary.BigEndian.AppendUint32(b, id)
	return append(b, payload...)
}

// send sends a frame. A server that has ended the connection is not an error here.
func (p *peer) send(kind, flags byte, id uint32, payload []byte) error {
	_, err := p.nc.Write(appendFrame(nil, kind, flags, id, payload))
	return err
}

// block encodes fields, which are pairs of names and values.
func (p *peer) block(fields ...string) []byte {
	p.buf.Reset()
	for i := 0; i < len(fields); i += 2 {
		p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(p.buf.Bytes())
}

// request returns the block of a request.
func (p *peer) request(method, path string, fields ...string) []byte {
	return p.block(append([]string{":method", method, ":scheme", "http", ":path", path, ":authority", "a.example"}, fields...)...)
}

func number(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// next receives a frame. It fails the test if the connection ends.
func (p *peer) next() frame {
	p.t.Helper()
	f, err := p.read()
	if err != nil {
		p.t.Fatalf("reading a frame: %v", err)
	}
	return f
}

func (p *peer) read() (frame, error) {
	var head [9]byte
	if _, err := io.ReadFull(p.br, head[:]); err != nil {
		return frame{}, err
	}
	f := frame{kind: head[3], flags: head[4], id: binary.BigEndian.Uint32(head[5:])}
	f.payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err := io.ReadFull(p.br, f.payload)
	return f, err
}

// until receives frames up to one of that kind.
func (p *peer) until(kind byte) frame {
	p.t.Helper()
	for {
		if f := p.next(); f.kind == kind && !(kind == settingsFrame && f.flags&ack != 0) {
			return f
		}
	}
}

// windows is what a server lets a peer send on a stream.
type windows struct {
	id           uint32
	conn, stream int
}

// firstWindows returns the windows of a stream on which nothing was sent, if nothing was on the connection.
func firstWindows(id uint32) *windows { return &windows{id, 65535, 256 << 10} }

func (w *windows) allow(n int) bool { return min(w.conn, w.stream) >= n }

func (w *windows) sent(n int) { w.conn, w.stream = w.conn-n, w.stream-n }

// received makes the windows wider if f says so.
func (w *windows) received(f frame) {
	switch {
	case f.kind == windowFrame && f.id == 0:
		w.conn += int(binary.BigEndian.Uint32(f.payload))
	case f.kind == windowFrame && f.id == w.id:
		w.stream += int(binary.BigEndian.Uint32(f.payload))
	}
}

// response receives a response on a stream, and ignores frames of other streams.
func (p *peer) response(id uint32) (fields string, body string) {
	p.t.Helper()
	var all, data strings.Builder
	for {
		f := p.next()
		switch {
		case f.kind == headersFrame:
			decoded, err := p.dec.DecodeFull(f.payload)
			if err != nil {
				p.t.Fatal(err)
			}
			if f.id == id {
				for _, field := range decoded {
					fmt.Fprintf(&all, "%s: %s\n", field.Name, field.Value)
				}
			}
		case f.kind == dataFrame && f.id == id:
			data.Write(f.payload)
		case f.kind == resetFrame && f.id == id, f.kind == goAwayFrame && f.code() != 0:
			p.t.Fatalf("got frame %d with %v", f.kind, f.code())
		case f.kind == goAwayFrame:
			p.left = true
		}
		if f.id == id && f.flags&endStream != 0 && f.kind <= headersFrame {
			return all.String(), data.String()
		}
	}
}

// noCode stands for a connection that ends without a GOAWAY.
const noCode = http2.Code(1 << 20)

// ended reports the GOAWAY that ends the connection.
func (p *peer) ended() http2.Code {
	p.t.Helper()
	code := noCode
	if p.left {
		code = http2.NoError
	}
	for {
		f, err := p.read()
		if err != nil {
			return code
		}
		if f.kind == goAwayFrame {
			_, code = f.goAway()
		}
	}
}

// clientHTTP2 returns a client of net/http that speaks HTTP/2 on plain connections.
func clientHTTP2(t testing.TB) *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}
