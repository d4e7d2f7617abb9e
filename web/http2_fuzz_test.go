package web_test

import (
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/web"
)

// choices makes decisions from the bytes of a fuzzer. When they are used up, all are 0.
type choices struct{ data []byte }

func (c *choices) next(n int) int {
	if len(c.data) == 0 {
		return 0
	}
	b := c.data[0]
	c.data = c.data[1:]
	return int(b) % n
}

// conversation returns a case with requests, bodies, trailers and resets on several streams,
// in frames that a client may send.
func conversation(data []byte) *wireCase {
	w := &wireCase{}
	w.say = func(p *peer) {
		c := &choices{data}
		w.ends = nil
		var open []uint32
		last := uint32(1)
		begin := func() {
			fields := []string{"trailer", "foo"}
			if c.next(2) == 1 {
				fields = append(fields, "te", "trailers") // once: net/http refuses a second one, which says the same
			}
			for range c.next(4) {
				fields = append(fields, [][]string{
					{"x-a", "1"}, {"x-a", "2"}, {"cookie", "a=b"}, {"accept", "*/*"}, {"x-empty", ""}, {"x-long", strings.Repeat("x", 200)},
				}[c.next(6)]...)
			}
			b := p.request([]string{"GET", "POST", "PUT", "BREW"}[c.next(4)], []string{"/", "/a?b=c", "/%20/"}[c.next(3)], fields...)
			flags, id := byte(0), last
			last += 2
			if c.next(3) == 0 {
				flags = endStream
				w.ends = append(w.ends, id)
			} else {
				open = append(open, id)
			}
			if c.next(4) == 1 {
				flags |= 0x20
				b = append(append(number(0), byte(c.next(256))), b...)
			}
			cut := len(b)
			if c.next(4) == 1 && len(b) > 6 {
				cut = 5 + c.next(len(b)-5) // after the priority
			}
			if pad := c.next(20); pad > 10 {
				p.send(headersFrame, flags|0x8|endsBlock(cut == len(b)), id, slices.Concat([]byte{byte(pad)}, b[:cut], make([]byte, pad)))
			} else {
				p.send(headersFrame, flags|endsBlock(cut == len(b)), id, b[:cut])
			}
			if cut < len(b) {
				p.send(continuationFrame, endHeaders, id, b[cut:])
			}
		}
		for len(c.data) > 0 && last < 60 {
			op := c.next(7)
			if len(open) == 0 && op > 0 && op < 4 {
				op = 0
			}
			switch op {
			case 0:
				begin()
			case 1: // some of a body, or the end of it
				i := c.next(len(open))
				id, body := open[i], make([]byte, c.next(256)*c.next(8))
				flags := byte(0)
				if c.next(3) == 0 {
					flags = endStream
					open = slices.Delete(open, i, i+1)
					w.ends = append(w.ends, id)
				}
				if pad := c.next(20); pad > 10 {
					p.send(dataFrame, flags|0x8, id, slices.Concat([]byte{byte(pad)}, body, make([]byte, pad)))
				} else {
					p.send(dataFrame, flags, id, body)
				}
			case 2:
				i := c.next(len(open))
				p.send(headersFrame, whole, open[i], p.block("foo", "bar"))
				w.ends = append(w.ends, open[i])
				open = slices.Delete(open, i, i+1)
			case 3:
				i := c.next(len(open))
				p.send(resetFrame, 0, open[i], number(8))
				open = slices.Delete(open, i, i+1)
			case 4:
				p.send(pingFrame, 0, 0, make([]byte, 8))
			case 5:
				p.send(windowFrame, 0, 0, number(uint32(1+c.next(256))))
			case 6:
				p.send(settingsFrame, 0, 0, append([]byte{0, 4}, number(uint32(65535+c.next(256)))...))
			}
		}
		for _, id := range open {
			p.send(dataFrame, endStream, id, nil)
			w.ends = append(w.ends, id)
		}
		slices.Sort(w.ends)
	}
	return w
}

func endsBlock(all bool) byte {
	if all {
		return endHeaders
	}
	return 0
}

// sumRequest answers with what a handler sees, but for the body only its sum.
func sumRequest(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	fmt.Fprint(w, r.Method, r.RequestURI, len(r.Header), r.Header["X-A"], r.Header["Cookie"], len(r.Header.Get("X-Long")), len(body), crc32.ChecksumIEEE(body), err != nil, r.Trailer["Foo"])
}

// FuzzHTTP2 has the same conversation with this server and with that of net/http, which is
// golang.org/x/net/http2.
func FuzzHTTP2(f *testing.F) {
	theirs := httptest.NewUnstartedServer(http.HandlerFunc(sumRequest))
	theirs.Config.ErrorLog = log.New(io.Discard, "", 0)
	theirs.Config.Protocols = h2c()
	theirs.Start()
	f.Cleanup(theirs.Close)
	ours := map[string]string{}
	for name, h := range map[string]http.Handler{"worker": http.HandlerFunc(sumRequest), "inline": web.Inline(http.HandlerFunc(sumRequest))} {
		ours[name] = serve(f, plainHTTP2(&web.Server{Handler: h, ErrorLog: slog.New(slog.DiscardHandler)})).Addr().String()
	}
	for _, seed := range []string{"\x00", "\x00\x01\x02\x01\x01\x01\x01\x00\x01\x01\x01\x00\xff\x07\x00", "\x00\x03\x00\x01\x02\x01\x01\x01\x02\x00\x03\x00\x04\x05\x06\x00\x00\x00"} {
		f.Add([]byte(seed))
	}
	random := make([]byte, 300)
	for i := range random {
		random[i] = byte(i * i * 7 >> 3)
	}
	f.Add(random)
	f.Fuzz(func(t *testing.T, data []byte) {
		want := conversation(data).outcome(t, theirs.Listener.Addr().String())
		for name, addr := range ours {
			if got := conversation(data).outcome(t, addr); got != want {
				t.Errorf("%s:\n got %s\nwant %s", name, got, want)
			}
		}
	})
}
