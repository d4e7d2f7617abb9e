package ws_test

import (
	"bufio"
	"bytes"
	"compress/flate"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits before it fails. A flood takes long on a busy machine, under the race detector.
const patience = 3 * time.Minute

// peer is the other side of a tested implementation. It is written from the
// protocol's specification and uses nothing of the package: it writes bytes, right
// or wrong, and reads frames.
type peer struct {
	t      *testing.T
	nc     net.Conn
	br     *bufio.Reader
	client bool       // a client, which masks its frames
	ended  chan error // the error with which the tested side ends
}

// First bytes of frames.
const (
	fin   = 0x80
	rsv1  = 0x40
	rsv2  = 0x20
	rsv3  = 0x10
	cont  = 0x0
	text  = 0x1
	binry = 0x2
	clos  = 0x8
	ping  = 0x9
	pong  = 0xa
)

func newPeer(t *testing.T, nc net.Conn, client bool) *peer {
	t.Helper()
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return &peer{t: t, nc: nc, br: bufio.NewReaderSize(nc, 64<<10), client: client, ended: make(chan error, 1)}
}

// frame returns a frame as this side has to encode it.
func (p *peer) frame(first byte, payload string) []byte { return frame(first, payload, p.client) }

func frame(first byte, payload string, masked bool) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
	if !masked {
		return append(b, payload...)
	}
	b[1] |= 0x80
	key := [4]byte{0xa1, 0x02, 0xc3, 0x54}
	b = append(b, key[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^key[i%4])
	}
	return b
}

// send writes frames with one call.
func (p *peer) send(frames ...[]byte) {
	p.t.Helper()
	if _, err := p.nc.Write(bytes.Join(frames, nil)); err != nil {
		p.t.Fatalf("sending: %v", err)
	}
}

// flood writes for as long as the other side accepts it.
func (p *peer) flood(b []byte, times int) {
	for range times {
		if _, err := p.nc.Write(b); err != nil {
			return
		}
	}
}

// endWriting closes the writing side.
func (p *peer) endWriting() { p.nc.(*net.TCPConn).CloseWrite() }

// dribble writes n bytes at a time.
func (p *peer) dribble(n int, frames ...[]byte) {
	p.t.Helper()
	for b := bytes.Join(frames, nil); len(b) > 0; {
		n = min(n, len(b))
		p.send(b[:n])
		b = b[n:]
	}
}

// read reads a frame.
func (p *peer) read() (first byte, payload string, err error) {
	var head [10]byte
	if _, err := io.ReadFull(p.br, head[:2]); err != nil {
		return 0, "", err
	}
	n := uint64(head[1] & 0x7f)
	switch n {
	case 126:
		if _, err := io.ReadFull(p.br, head[2:4]); err != nil {
			return 0, "", err
		}
		n = uint64(binary.BigEndian.Uint16(head[2:]))
	case 127:
		if _, err := io.ReadFull(p.br, head[2:10]); err != nil {
			return 0, "", err
		}
		n = binary.BigEndian.Uint64(head[2:])
	}
	var key [4]byte
	if masked := head[1]&0x80 != 0; masked == p.client {
		return 0, "", fmt.Errorf("masked: %v", masked)
	} else if masked {
		if _, err := io.ReadFull(p.br, key[:]); err != nil {
			return 0, "", err
		}
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(p.br, b); err != nil {
		return 0, "", err
	}
	for i := range b {
		b[i] ^= key[i%4]
	}
	return head[0], string(b), nil
}

// wants reads a frame and compares it.
func (p *peer) wants(first byte, payload string) {
	p.t.Helper()
	f, got, err := p.read()
	if err != nil || f != first || got != payload {
		p.t.Fatalf("got %#x %.80q (%d bytes), %v; want %#x %.80q (%d bytes)", f, got, len(got), err, first, payload, len(payload))
	}
}

// wantsPacked reads a compressed message.
func (p *peer) wantsPacked(first byte, message string) {
	p.t.Helper()
	f, got, err := p.read()
	if err != nil || f != first|rsv1 {
		p.t.Fatalf("got %#x %.80q, %v; want a compressed %#x", f, got, err, first)
	}
	if plain := unpack(got); plain != message {
		p.t.Fatalf("got %.80q (%d bytes), want %.80q (%d bytes)", plain, len(plain), message, len(message))
	}
}

// wantsClose reads a Close with this code and then the end of the connection.
func (p *peer) wantsClose(code int) {
	p.t.Helper()
	p.wantsCloseFrame(code)
	p.wantsEnd()
}

func (p *peer) wantsCloseFrame(code int) {
	p.t.Helper()
	f, got, err := p.read()
	if err != nil || f != fin|clos {
		p.t.Fatalf("got %#x %.80q, %v; want a Close with %d", f, got, err, code)
	}
	if code == 1005 && got == "" {
		return
	}
	if len(got) < 2 || int(binary.BigEndian.Uint16([]byte(got))) != code {
		p.t.Fatalf("got a Close with %q, want %d", got, code)
	}
}

// wantsEnd waits for the other side to close, and closes this side. A client closes
// only after the server has.
func (p *peer) wantsEnd() {
	p.t.Helper()
	if !p.client {
		p.endWriting()
	}
	if b, err := p.br.ReadByte(); err == nil {
		p.t.Fatalf("got %#x, want the end of the connection", b)
	}
	p.nc.Close()
}

// wantsFault is wantsClose, and the tested side must end with the same code.
func (p *peer) wantsFault(code int) {
	p.t.Helper()
	p.wantsClose(code)
	if err := p.end(); codeOf(err) != code {
		p.t.Fatalf("closed with %v, want %d", err, code)
	}
}

// end returns the error with which the tested side ends.
func (p *peer) end() error {
	p.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-p.ended:
		return err
	case <-timer.C:
		p.t.Fatal("the connection does not end")
		return nil
	}
}

// closePayload returns the payload of a Close.
func closePayload(code int, reason string) string {
	return string([]byte{byte(code >> 8), byte(code)}) + reason
}

// packer is shared, because it is large.
var packer, _ = flate.NewWriter(nil, 6)

// pack compresses a message on its own.
func pack(message string) string {
	var b bytes.Buffer
	w := packer
	w.Reset(&b)
	w.Write([]byte(message))
	w.Flush()
	return strings.TrimSuffix(b.String(), "\x00\x00\xff\xff")
}

func unpack(packed string) string {
	b, err := io.ReadAll(flate.NewReader(strings.NewReader(packed + "\x00\x00\xff\xff\x01\x00\x00\xff\xff")))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// request returns a handshake as a browser sends it.
func request(host, target string, fields ...string) string {
	return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n" +
		strings.Join(append(fields, "\r\n"), "\r\n")
}

// handshake performs a client's side of the handshake.
func (p *peer) handshake(req string) *http.Response {
	p.t.Helper()
	p.send([]byte(req))
	res, err := http.ReadResponse(p.br, nil)
	if err != nil {
		p.t.Fatalf("handshake: %v", err)
	}
	return res
}

// welcome performs a server's side of the handshake.
func (p *peer) welcome(fields ...string) *http.Request {
	p.t.Helper()
	r, err := http.ReadRequest(p.br)
	if err != nil {
		p.t.Fatalf("handshake: %v", err)
	}
	p.send([]byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
		accept(r.Header.Get("Sec-WebSocket-Key")) + "\r\n" + strings.Join(append(fields, "\r\n"), "\r\n")))
	return r
}

func accept(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}
