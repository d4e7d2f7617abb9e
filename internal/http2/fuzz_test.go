package http2_test

import (
	"bytes"
	"fmt"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/spindleloop/spindle/internal/http2"
)

// hear passes data to a connection in pieces of at most step bytes, and returns what happened
// and what was answered. A server answers each request at its end.
func hear(role http2.Role, data []byte, step int) string {
	c := http2.NewShared(http2.Config{Role: role, MaxStreams: 5, HeaderBytes: 1000}).NewConn(nil)
	var log bytes.Buffer
	if role == http2.Client {
		for range 3 {
			s := &http2.Stream{}
			c.Request(s, http2.AppendPseudo(nil, ":method", "GET"), false)
		}
	}
	bodies := map[uint32]int{}
	for len(data) > 0 {
		piece := data[:min(step, len(data))]
		data = data[len(piece):]
		for {
			n, event, err := c.Parse(piece)
			piece = piece[n:]
			if err != nil {
				fmt.Fprintf(&log, "%v\n", err)
				return log.String() + fmt.Sprintf("%x", c.Out)
			}
			if event == http2.More {
				break
			}
			switch event {
			case http2.Head:
				h := c.Head()
				fmt.Fprintf(&log, "head %d %q %q %q %d %v %v\n", c.ID(), h.Method, h.Path, h.Authority, h.Status, h.Fields, c.Ends())
				if c.Stream() == nil {
					c.Open(&http2.Stream{}, true)
				}
			case http2.Data:
				bodies[c.Stream().ID()] += len(c.Data())
				c.Consume(c.Stream(), len(c.Data()))
			case http2.End:
				fmt.Fprintf(&log, "end %d %d %v\n", c.Stream().ID(), bodies[c.Stream().ID()], c.Head().Fields)
				if s := c.Stream(); role == http2.Server && s.Sending() {
					c.SendHead(s, http2.AppendStatus(nil, 200), true)
				}
			case http2.Reset, http2.Failed:
				fmt.Fprintf(&log, "%v %d %v\n", event, c.Stream().ID(), c.Code())
			case http2.Goodbye:
				fmt.Fprintf(&log, "goodbye %d %v\n", c.LastID(), c.Code())
			case http2.Pong:
				fmt.Fprintf(&log, "%v\n", event)
			}
			for _, s := range c.Streams() {
				send, receive := s.Windows()
				if send > 1<<31-1 || receive > 1<<31-1 || receive < 0 || s.Unread() < 0 {
					panic(fmt.Sprintf("windows %d and %d, %d unread", send, receive, s.Unread()))
				}
			}
		}
	}
	send, receive := c.Windows()
	return log.String() + fmt.Sprintf("%d %d %x", send, receive, c.Out)
}

// FuzzFrames passes bytes to both sides of a connection. They must not panic, and what happens
// must not depend on how the bytes are cut into pieces.
func FuzzFrames(f *testing.F) {
	frame := func(kind, flags byte, id uint32, payload string) string {
		n := len(payload)
		return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}) + payload
	}
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/a"}, {":authority", "b"}, {"x-y", "1"}} {
		enc.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	request := block.String()
	greeting := frame(4, 0, 0, "")
	f.Add(greeting+frame(1, 4, 1, request)+frame(0, 1, 1, "hello"), 3)
	f.Add(greeting+frame(1, 5, 1, request)+frame(1, 0, 3, request[:3])+frame(9, 4, 3, request[3:]), 5)
	f.Add(greeting+frame(1, 4, 1, request)+frame(0, 8, 1, "\x02abcd\x00\x00")+frame(1, 5, 1, "\x00\x01a\x01b"), 1)
	f.Add(greeting+frame(6, 0, 0, "12345678")+frame(8, 0, 0, "\x00\x00\x10\x00")+frame(3, 0, 1, "\x00\x00\x00\x08")+frame(7, 0, 0, "\x00\x00\x00\x01\x00\x00\x00\x00"), 9)
	f.Add(greeting+frame(1, 4, 1, "\x88\x00\x01a\x01b")+frame(0, 1, 1, "hello")+frame(2, 0, 3, "\x00\x00\x00\x03\x10"), 2)
	f.Add(frame(4, 0, 0, "\x00\x04\x00\x00\x00\x00\x00\x08\x00\x00\x00\x01")+frame(16, 0, 0, "\x00\x00\x00\x01u=1"), 4)
	f.Fuzz(func(t *testing.T, data string, step int) {
		step = max(1, min(step, 1<<16))
		for role, start := range map[http2.Role]string{http2.Server: http2.Preface, http2.Client: ""} {
			whole, cut := hear(role, []byte(start+data), 1<<30), hear(role, []byte(start+data), step)
			if whole != cut {
				t.Errorf("role %d: in one piece\n%s\nin pieces of %d\n%s", role, whole, step, cut)
			}
		}
	})
}
