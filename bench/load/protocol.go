//go:build linux

package load

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// protocol makes the messages for a server and checks its answers.
type protocol interface {
	// burst returns the depth messages of burst seq on connection i. They are valid
	// until the next call.
	burst(i int, seq uint64, depth int) []byte
	// answerBytes returns the length of the answer to one message.
	answerBytes() int
	// verify returns an error unless in has the answers to burst seq on connection i.
	verify(i int, seq uint64, in []byte) error
}

// headerBytes is the size of the numbers of connection and burst, which begin every
// message to echo.
const headerBytes = 16

// echoes is the echo protocol: the server returns every message unchanged.
type echoes struct {
	size   int    // bytes of a message
	out    []byte // the current burst
	filler []byte // the bytes of a message after the header
}

func newEchoes(p Plan) *echoes {
	e := &echoes{
		size:   p.SizeBytes,
		out:    make([]byte, p.SizeBytes*p.Depth),
		filler: make([]byte, p.SizeBytes-headerBytes),
	}
	for i := range e.filler {
		e.filler[i] = byte('a' + i%26)
	}
	for at := 0; at < len(e.out); at += e.size {
		copy(e.out[at+headerBytes:], e.filler)
	}
	return e
}

func (e *echoes) answerBytes() int { return e.size }

func (e *echoes) burst(i int, seq uint64, depth int) []byte {
	out := e.out[:depth*e.size]
	for at := 0; at < len(out); at += e.size {
		binary.LittleEndian.PutUint64(out[at:], uint64(i))
		binary.LittleEndian.PutUint64(out[at+8:], seq<<8|uint64(at/e.size))
	}
	return out
}

func (e *echoes) verify(i int, seq uint64, in []byte) error {
	for at := 0; at < len(in); at += e.size {
		conn := binary.LittleEndian.Uint64(in[at:])
		number := binary.LittleEndian.Uint64(in[at+8:])
		if conn != uint64(i) || number != seq<<8|uint64(at/e.size) ||
			!bytes.Equal(in[at+headerBytes:at+e.size], e.filler) {
			return fmt.Errorf("load: connection %d: message %d of burst %d came back changed", i, at/e.size, seq)
		}
	}
	return nil
}

// requests is HTTP with equal requests. All answers to the same request have the same
// length, because the length of a date is fixed. A first request finds that length.
type requests struct {
	out    []byte // a complete burst
	each   int    // bytes of a request
	answer int    // bytes of its answer
	body   []byte
}

// firstRequestLimit is the time limit of the first request.
const firstRequestLimit = 5 * time.Second

// The text after the code is up to the server.
var statusOK = []byte("HTTP/1.1 200 ")

// request returns the request of a plan with a Path.
func (p Plan) request() string {
	if p.Upload == "" {
		return "GET " + p.Path + " HTTP/1.1\r\nHost: " + p.Addr + "\r\n\r\n"
	}
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
		p.Path, p.Addr, p.ContentType, len(p.Upload), p.Upload)
}

func newRequests(p Plan) (*requests, error) {
	request := p.request()
	r := &requests{each: len(request), body: []byte(p.Body)}
	r.out = []byte(strings.Repeat(request, p.Depth))
	nc, err := net.DialTimeout("tcp", p.Addr, firstRequestLimit)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(firstRequestLimit))
	if _, err := io.WriteString(nc, request); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	var seen bytes.Buffer
	res, err := http.ReadResponse(bufio.NewReader(io.TeeReader(nc, &seen)), nil)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	r.answer = seen.Len()
	return r, r.verify(0, 0, seen.Bytes())
}

func (r *requests) answerBytes() int { return r.answer }

func (r *requests) burst(_ int, _ uint64, depth int) []byte { return r.out[:depth*r.each] }

func (r *requests) verify(i int, seq uint64, in []byte) error {
	for at := 0; at < len(in); at += r.answer {
		if one := in[at : at+r.answer]; !bytes.HasPrefix(one, statusOK) || !bytes.HasSuffix(one, r.body) {
			return fmt.Errorf("load: connection %d: answer %d of burst %d is %q", i, at/r.answer, seq, one)
		}
	}
	return nil
}
