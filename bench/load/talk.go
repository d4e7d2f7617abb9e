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

// talk is what is said to a server, and what it has to answer.
type talk interface {
	// burst is the depth messages of connection i's burst number seq. It is
	// valid until the next call.
	burst(i int, seq uint64, depth int) []byte
	// answerBytes is the length of the answer to one message.
	answerBytes() int
	// verify tells whether in is the answers to that burst.
	verify(i int, seq uint64, in []byte) error
}

// headerBytes is the number of the connection and of the burst, at the start
// of every message to echo.
const headerBytes = 16

// echoes are messages that come back as they are.
type echoes struct {
	size   int    // of a message, bytes
	out    []byte // the burst being sent
	filler []byte // what stands in a message after the header
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
		who := binary.LittleEndian.Uint64(in[at:])
		number := binary.LittleEndian.Uint64(in[at+8:])
		if who != uint64(i) || number != seq<<8|uint64(at/e.size) ||
			!bytes.Equal(in[at+headerBytes:at+e.size], e.filler) {
			return fmt.Errorf("load: connection %d: message %d of burst %d came back changed", i, at/e.size, seq)
		}
	}
	return nil
}

// requests are GET requests. A server's answers to the same one are of the same
// length, as the date's is; it is found by asking once.
type requests struct {
	out    []byte // a whole burst
	each   int    // bytes of a request
	answer int    // bytes of its answer
	body   []byte
}

// askLimit bounds the first request.
const askLimit = 5 * time.Second

var statusOK = []byte("HTTP/1.1 200 OK\r\n")

func newRequests(p Plan) (*requests, error) {
	request := "GET " + p.Path + " HTTP/1.1\r\nHost: " + p.Addr + "\r\n\r\n"
	r := &requests{each: len(request), body: []byte(p.Body)}
	r.out = []byte(strings.Repeat(request, p.Depth))
	nc, err := net.DialTimeout("tcp", p.Addr, askLimit)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(askLimit))
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
