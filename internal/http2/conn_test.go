package http2_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/spindleloop/spindle/internal/http2"
)

// side is one end of a connection that exists in memory.
type side struct {
	*http2.Conn
	events []string
	stream map[uint32]*http2.Stream
	body   map[uint32]string
}

func pair() (client, server *side) {
	make := func(role http2.Role) *side {
		c := http2.NewShared(http2.Config{Role: role}).NewConn(nil)
		return &side{Conn: c, stream: map[uint32]*http2.Stream{}, body: map[uint32]string{}}
	}
	return make(http2.Client), make(http2.Server)
}

// take parses data and notes what happens.
func (s *side) take(t *testing.T, data []byte) {
	t.Helper()
	for {
		n, event, err := s.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		data = data[n:]
		switch event {
		case http2.More:
			return
		case http2.Head:
			h := s.Head()
			s.events = append(s.events, fmt.Sprintf("head %d %s%s %d %v", s.ID(), h.Method, h.Path, h.Status, s.Ends()))
			if s.Stream() == nil {
				stream := &http2.Stream{}
				s.Open(stream, true)
				s.stream[s.ID()] = stream
			}
		case http2.Data:
			s.body[s.Stream().ID()] += string(s.Data())
			s.Consume(s.Stream(), len(s.Data()))
		case http2.End:
			s.events = append(s.events, fmt.Sprintf("end %d %v", s.Stream().ID(), s.Head().Fields))
		case http2.Reset:
			s.events = append(s.events, fmt.Sprintf("reset %d %v", s.Stream().ID(), s.Code()))
		case http2.Pong, http2.Goodbye:
			s.events = append(s.events, event.String())
		}
	}
}

// exchange passes everything that both sides have to send, cut into pieces.
func exchange(t *testing.T, a, b *side) {
	t.Helper()
	for len(a.Out)+len(b.Out) > 0 {
		for _, way := range [][2]*side{{a, b}, {b, a}} {
			out := way[0].Out
			way[0].Out = nil
			for len(out) > 0 {
				n := 1 + rand.IntN(len(out))
				way[1].take(t, out[:n])
				out = out[n:]
			}
		}
	}
}

func requestBlock(method, path string) []byte {
	b := http2.AppendPseudo(nil, ":method", method)
	b = http2.AppendPseudo(b, ":scheme", "http")
	b = http2.AppendPseudo(b, ":path", path)
	return http2.AppendPseudo(b, ":authority", "a.example")
}

func TestClientAndServer(t *testing.T) {
	client, server := pair()
	exchange(t, client, server)
	var get, post http2.Stream
	client.Request(&get, requestBlock("GET", "/x"), true)
	client.Request(&post, requestBlock("POST", "/y"), false)
	body := strings.Repeat("0123456789", 1000)
	client.SendData(&post, []byte(body), false)
	trailer, _ := http2.AppendField(nil, "X-Sum", "1")
	client.SendHead(&post, trailer, true)
	exchange(t, client, server)
	server.SendHead(server.stream[1], http2.AppendStatus(nil, 103), false)
	server.SendHead(server.stream[1], http2.AppendStatus(nil, 404), true)
	server.SendHead(server.stream[3], http2.AppendStatus(nil, 200), false)
	server.SendData(server.stream[3], []byte("answer"), true)
	server.Leave()
	exchange(t, client, server)
	server.LeaveFinally(http2.NoError)
	exchange(t, client, server)
	if got, want := fmt.Sprint(server.events), "[head 1 GET/x 0 true head 3 POST/y 0 false end 3 [header field \"x-sum\" = \"1\"] Pong]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(client.events), "[head 1  103 false head 1  404 true head 3  200 false end 3 [] Goodbye Goodbye]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if server.body[3] != body || client.body[3] != "answer" || !get.Closed() || !post.Closed() || len(server.Streams()) > 0 {
		t.Errorf("got %d bytes, %q", len(server.body[3]), client.body[3])
	}
}

// TestWindowsReturn sends far more than the windows hold.
func TestWindowsReturn(t *testing.T) {
	client, server := pair()
	exchange(t, client, server)
	var s http2.Stream
	client.Request(&s, requestBlock("POST", "/"), false)
	const total = 8 << 20
	for sent := 0; sent < total; {
		n := min(client.Room(&s), total-sent, 100_000)
		if n == 0 {
			t.Fatalf("no window after %d bytes", sent)
		}
		sent += n
		client.SendData(&s, make([]byte, n), sent == total)
		exchange(t, client, server)
	}
	if n := len(server.body[1]); n != total {
		t.Errorf("got %d bytes", n)
	}
}

// TestFieldsCanBeDecoded compares with the decoder of hpack.
func TestFieldsCanBeDecoded(t *testing.T) {
	for _, f := range [][2]string{
		{"Content-Type", "text/html"}, {"content-type", ""}, {"X-Custom", strings.Repeat("ü", 300)},
		{"Server", "x"}, {"Set-Cookie", "a=b"}, {"X-Request-Id", "1"}, {"Www-Authenticate", "Basic"}, {"CONTENT-LENGTH", "1"},
	} {
		b, err := http2.AppendField(nil, f[0], f[1])
		if err != nil {
			t.Fatal(err)
		}
		got, err := hpack.NewDecoder(4096, nil).DecodeFull(b)
		if err != nil || len(got) != 1 || got[0].Name != strings.ToLower(f[0]) || got[0].Value != f[1] {
			t.Errorf("%q: got %v, %v", f, got, err)
		}
	}
	for status := 100; status < 1000; status++ {
		got, err := hpack.NewDecoder(4096, nil).DecodeFull(http2.AppendStatus(nil, status))
		if err != nil || len(got) != 1 || got[0].Name != ":status" || got[0].Value != fmt.Sprint(status) {
			t.Errorf("%d: got %v, %v", status, got, err)
		}
	}
	for _, n := range []int64{0, 9, 1 << 40} {
		got, err := hpack.NewDecoder(4096, nil).DecodeFull(http2.AppendContentLength(nil, n))
		if err != nil || len(got) != 1 || got[0].Name != "content-length" || got[0].Value != fmt.Sprint(n) {
			t.Errorf("%d: got %v, %v", n, got, err)
		}
	}
	for _, name := range []string{":authority", ":method", ":path", ":scheme", ":protocol"} {
		got, err := hpack.NewDecoder(4096, nil).DecodeFull(http2.AppendPseudo(nil, name, "value"))
		if err != nil || len(got) != 1 || got[0].Name != name || got[0].Value != "value" {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	for _, f := range [][2]string{{"", "x"}, {"a b", "x"}, {"a", "x\r\ny"}, {"a\n", ""}, {":status", "200"}, {":path", "/"}, {":protocol", "x"}} {
		if b, err := http2.AppendField([]byte{1}, f[0], f[1]); err == nil || !bytes.Equal(b, []byte{1}) {
			t.Errorf("%q: got %v, %v", f, b, err)
		}
	}
}

// TestSmallerTableIsAcknowledged: a peer that makes the table smaller expects the next header
// to say so.
func TestSmallerTableIsAcknowledged(t *testing.T) {
	server := http2.NewShared(http2.Config{}).NewConn(nil)
	settings := []byte{0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}
	head := append([]byte{0, 0, byte(len(requestBlock("GET", "/"))), 1, 5, 0, 0, 0, 1}, requestBlock("GET", "/")...)
	data := append(append([]byte(http2.Preface), settings...), head...)
	for {
		n, event, err := server.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		if data = data[n:]; event == http2.Head {
			break
		}
	}
	var s http2.Stream
	server.Open(&s, false)
	server.Out = nil
	server.SendHead(&s, http2.AppendStatus(nil, 200), true)
	if want := []byte{0, 0, 2, 1, 5, 0, 0, 0, 1, 0x20, 0x88}; !bytes.Equal(server.Out, want) {
		t.Errorf("got %x, want %x", server.Out, want)
	}
}

// FuzzConn parses anything, in two different ways of cutting it.
func FuzzConn(f *testing.F) {
	f.Add([]byte(http2.Preface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"), 3)
	f.Add(append([]byte(http2.Preface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x05\x01\x05\x00\x00\x00\x01"), 0x82, 0x86, 0x84, 0x41, 0), 30)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		run := func(pieces ...[]byte) string {
			c := http2.NewShared(http2.Config{}).NewConn(nil)
			var log strings.Builder
			for _, p := range pieces {
				for {
					n, event, err := c.Parse(p)
					p = p[n:]
					if err != nil {
						fmt.Fprint(&log, err)
						return log.String()
					}
					if event == http2.More {
						break
					}
					if event == http2.Head && c.Stream() == nil {
						s := &http2.Stream{}
						c.Open(s, true)
						if c.Ends() {
							c.SendHead(s, http2.AppendStatus(nil, 200), true)
						}
					}
					if event == http2.Data {
						c.Consume(c.Stream(), len(c.Data()))
						continue
					}
					fmt.Fprintln(&log, event)
				}
			}
			return log.String()
		}
		cut = max(0, min(cut, len(data)))
		if whole, parts := run(data), run(data[:cut], data[cut:]); whole != parts {
			t.Errorf("whole: %s\nin parts: %s", whole, parts)
		}
	})
}
