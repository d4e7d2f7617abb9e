package http1_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/http1"
)

// message is a message as a parser reported it.
type message struct {
	first     string // "GET /path HTTP/1.1", or "HTTP/1.1 200 OK"
	host      string
	fields    string // "Name: value" lines, in the order of arrival
	header    http.Header
	length    int64
	body      string
	trailers  http.Header
	keepAlive bool
	continues bool // expects 100-continue
	upgrade   string
	complete  bool
	used      int // bytes of the stream up to the end of the message
}

// outcome is the result of reading a stream.
type outcome struct {
	messages  []message
	err       error // the error of Parse
	idle      bool
	switched  bool
	remaining int // bytes after a switch
}

// parser has the methods that both parsers have.
type parser interface {
	Parse([]byte) (int, http1.Event, error)
	Idle() bool
	FieldCount() int
	Field(int) (name, value []byte)
	AddTo(http.Header)
	DeclareTrailers(http.Header)
	KeepAlive() bool
	Chunked() bool
	Version() http1.Version
	Length() int64
	Data() []byte
}

// read parses the stream in pieces. pieceSize gets the number of remaining bytes and
// returns the size of the next piece. Each piece has its own memory, which is overwritten
// once the parser has used it, so that slices that are kept too long are found.
func read(t testing.TB, p parser, stream string, pieceSize func(n int) int) (o outcome) {
	t.Helper()
	used := 0
	for used < len(stream) || len(stream) == 0 {
		k := max(1, min(pieceSize(len(stream)-used), len(stream)-used))
		if len(stream) == 0 {
			k = 0
		}
		piece := []byte(stream[used : used+k])
		for data := piece; ; {
			n, event, err := p.Parse(data)
			if err != nil {
				o.err = err
				checkSticky(t, p, err)
				return o
			}
			if n < 0 || n > len(data) {
				t.Fatalf("%q: Parse used %d of %d bytes", stream, n, len(data))
			}
			data = data[n:]
			used += n
			if event == http1.More {
				if len(data) != 0 {
					t.Fatalf("%q: More with %d unused bytes", stream, len(data))
				}
				break
			}
			o.take(t, p, event, used)
			if event == http1.Switch {
				o.switched, o.remaining = true, len(stream)-used
				return o
			}
		}
		for i := range piece {
			piece[i] = 0xAA
		}
		if len(stream) == 0 {
			break
		}
	}
	o.idle = p.Idle()
	return o
}

// checkSticky checks that every later call of Parse returns err again.
func checkSticky(t testing.TB, p parser, err error) {
	t.Helper()
	var typed *http1.Error
	if !errors.As(err, &typed) || typed.Status < 400 || typed.Status > 505 {
		t.Errorf("error %v has no status", err)
	}
	if _, _, again := p.Parse([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")); again != err {
		t.Errorf("after %v another call returned %v", err, again)
	}
	if p.Idle() {
		t.Errorf("the parser is idle after %v", err)
	}
}

// take records an event and checks that it is valid after the events before it.
func (o *outcome) take(t testing.TB, p parser, event http1.Event, used int) {
	t.Helper()
	last := len(o.messages) - 1
	open := last >= 0 && !o.messages[last].complete
	if (event == http1.Head) == open {
		t.Fatalf("event %v after %d messages, the last one incomplete: %v", event, len(o.messages), open)
	}
	switch event {
	case http1.Head:
		o.messages = append(o.messages, head(p))
	case http1.Data:
		if len(p.Data()) == 0 {
			t.Fatal("Data without data")
		}
		o.messages[last].body += string(p.Data())
	case http1.End, http1.Switch:
		m := &o.messages[last]
		m.complete, m.used = true, used
		p.AddTo(m.trailers)
		if !p.Chunked() && p.FieldCount() != 0 {
			t.Fatal("trailers after a body that is not chunked")
		}
	}
}

// head returns the message that begins with the head that p has just parsed.
func head(p parser) message {
	m := message{header: http.Header{}, trailers: http.Header{}, keepAlive: p.KeepAlive(), length: p.Length()}
	switch p := p.(type) {
	case *http1.RequestParser:
		m.first = fmt.Sprintf("%s %s %v", p.Method(), p.Target(), p.Version())
		m.host = string(p.Host())
		m.continues = p.ExpectsContinue()
		m.upgrade = string(p.Upgrade())
	case *http1.ResponseParser:
		m.first = fmt.Sprintf("%v %d %s", p.Version(), p.Status(), p.Reason())
	}
	var lines strings.Builder
	for i := range p.FieldCount() {
		name, value := p.Field(i)
		fmt.Fprintf(&lines, "%s: %s\n", name, value)
	}
	m.fields = lines.String()
	p.AddTo(m.header)
	p.DeclareTrailers(m.trailers)
	return m
}

func whole(n int) int { return n }

func readRequests(t testing.TB, stream string) outcome {
	t.Helper()
	return read(t, http1.NewRequestParser(http1.Limits{}), stream, whole)
}
