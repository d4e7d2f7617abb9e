package http1_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/http1"
)

// message is what a parser has said of one.
type message struct {
	first     string // "GET /path HTTP/1.1", or "HTTP/1.1 200 OK"
	host      string
	fields    string // "Name: value" lines, as they came
	header    http.Header
	length    int64
	body      string
	trailers  http.Header
	keepAlive bool
	continues bool // expects 100-continue
	upgrade   string
	complete  bool
	used      int // bytes of the stream up to its end
}

// outcome is what became of a stream.
type outcome struct {
	messages []message
	err      error // of Parse
	idle     bool
	switched bool
	left     int // bytes behind a switch
}

// parser is what both kinds have.
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

// read parses the stream, cut where cut says (it returns how many of the n bytes
// left come next). Every piece has memory of its own that is overwritten once the
// parser has used it: who keeps a slice too long is found out.
func read(t testing.TB, p parser, stream string, cut func(n int) int) (o outcome) {
	t.Helper()
	used := 0
	for used < len(stream) || len(stream) == 0 {
		k := max(1, min(cut(len(stream)-used), len(stream)-used))
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
					t.Fatalf("%q: More with %d bytes left", stream, len(data))
				}
				break
			}
			o.take(t, p, event, used)
			if event == http1.Switch {
				o.switched, o.left = true, len(stream)-used
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

func checkSticky(t testing.TB, p parser, err error) {
	t.Helper()
	var typed *http1.Error
	if !errors.As(err, &typed) || typed.Status < 400 || typed.Status > 505 {
		t.Errorf("error %v has no status", err)
	}
	if _, _, again := p.Parse([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")); again != err {
		t.Errorf("after %v another call returns %v", err, again)
	}
	if p.Idle() {
		t.Errorf("idle after %v", err)
	}
}

// take writes down an event and checks that it may come now.
func (o *outcome) take(t testing.TB, p parser, event http1.Event, used int) {
	t.Helper()
	last := len(o.messages) - 1
	open := last >= 0 && !o.messages[last].complete
	if (event == http1.Head) == open {
		t.Fatalf("%v after %d messages, the last of them open: %v", event, len(o.messages), open)
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
			t.Fatal("trailers of a body that is not chunked")
		}
	}
}

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
