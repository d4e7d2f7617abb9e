package picture

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spindleloop/spindle/internal/simkernel"
)

// Decode returns a copy of a trace. Messages have a text if their protocol is known:
// HTTP, WebSocket, the frames of HTTP/2, the records of TLS, and the protocol of Redis.
// Other text is left as it is.
func Decode(trace []simkernel.Event) []simkernel.Event {
	d := decoder{protocols: map[int]protocol{}, skip: map[direction]int{}}
	decoded := make([]simkernel.Event, len(trace))
	for i, e := range trace {
		if k := e.KindOf(); e.Text == "" && e.Data != "" && (k == simkernel.Data || k == simkernel.Datagram || k == simkernel.Dropped) {
			e.Text = d.text(e)
		}
		decoded[i] = e
	}
	return decoded
}

// decoder knows the protocol of each connection.
type decoder struct {
	protocols map[int]protocol  // by connection
	skip      map[direction]int // bytes of a frame that are still to come
}

type direction struct {
	conn int
	from string
}

type protocol uint8

const (
	unknown protocol = iota
	websocket
	http2
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

func (d *decoder) text(e simkernel.Event) string {
	switch {
	case e.Conn != 0 && d.protocols[e.Conn] == websocket:
		return d.frames(e, 2, nextWebSocket)
	case e.Conn != 0 && d.protocols[e.Conn] == http2:
		return d.frames(e, 9, nextHTTP2)
	case e.Conn != 0 && strings.HasPrefix(e.Data, preface):
		d.protocols[e.Conn] = http2
		if rest := e.Data[len(preface):]; rest != "" {
			e.Data, e.Size = rest, e.Size-len(preface)
			return "HTTP/2 preface, " + d.frames(e, 9, nextHTTP2)
		}
		return "HTTP/2 preface"
	}
	if text := httpMessage(e); text != "" {
		if strings.HasPrefix(text, "101") {
			d.protocols[e.Conn] = websocket
		}
		return text
	}
	if text := record(e); text != "" {
		return text
	}
	return redisWords(e.Data)
}

var (
	request  = regexp.MustCompile(`^([A-Z]+ \S+) HTTP/1\.[01]\r\n`)
	response = regexp.MustCompile(`^HTTP/1\.[01] (\d{3}[^\r]*)\r\n`)
)

// httpMessage returns the request or the status of a message of HTTP/1, with the beginning of its
// body, or "" for another message.
func httpMessage(e simkernel.Event) string {
	head := request.FindStringSubmatch(e.Data)
	if head == nil {
		head = response.FindStringSubmatch(e.Data)
	}
	if head == nil {
		return ""
	}
	text := head[1]
	if _, body, ok := strings.Cut(e.Data, "\r\n\r\n"); ok && body != "" && printable(body) {
		text += " " + strings.TrimSpace(body)
	}
	return text
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' })
}

// record describes a record of TLS, or returns "" for something else.
func record(e simkernel.Event) string {
	if len(e.Data) < 5 || e.Data[1] != 3 || e.Data[2] > 4 {
		return ""
	}
	switch e.Data[0] {
	case 20, 22:
		return "TLS handshake"
	case 21:
		return "TLS alert"
	case 23:
		return fmt.Sprintf("TLS, %d bytes", e.Size)
	}
	return ""
}

// frames describes the frames of a message. A frame may end in a later message.
func (d *decoder) frames(e simkernel.Event, least int, next func(b []byte) (text string, size int)) string {
	from := direction{e.Conn, e.From}
	b, missing := []byte(e.Data), e.Size-len(e.Data) // missing bytes were not kept
	if d.skip[from] >= e.Size {
		d.skip[from] -= e.Size
		return fmt.Sprintf("%d more bytes", e.Size)
	}
	b = b[min(d.skip[from], len(b)):]
	d.skip[from] = 0
	var all []string
	for len(b) >= least {
		text, size := next(b)
		if size == 0 {
			break
		}
		all = append(all, text)
		if size > len(b) {
			d.skip[from] = max(size-len(b)-missing, 0)
			break
		}
		b = b[size:]
	}
	if len(all) == 0 {
		return fmt.Sprintf("%d bytes", e.Size)
	}
	return strings.Join(all, ", ")
}

var opcodes = map[byte]string{0: "more", 1: "text", 2: "binary", 8: "close", 9: "ping", 10: "pong"}

// nextWebSocket describes the first frame of b. The size is 0 if its head is not complete.
func nextWebSocket(b []byte) (text string, size int) {
	head, length := 2, int(b[1]&127)
	switch {
	case length == 126 && len(b) >= 4:
		head, length = 4, int(binary.BigEndian.Uint16(b[2:]))
	case length == 127 && len(b) >= 10:
		head, length = 10, int(min(binary.BigEndian.Uint64(b[2:]), 1<<30)) // no message is that large
	case length > 125:
		return "", 0
	}
	masked := b[1]&128 != 0
	if masked {
		head += 4
	}
	if head > len(b) {
		return "", 0
	}
	payload := bytes.Clone(b[head:min(head+length, len(b))])
	if masked {
		for i := range payload {
			payload[i] ^= b[head-4+i%4]
		}
	}
	text = "ws " + opcodes[b[0]&15]
	switch op := b[0] & 15; {
	case op == 8 && len(payload) >= 2:
		text += fmt.Sprint(" ", binary.BigEndian.Uint16(payload))
	case b[0]&64 == 0 && op < 2 && printable(string(payload)):
		text += " " + string(payload)
	case length > 0:
		text += fmt.Sprintf(" (%d bytes)", length)
	}
	return text, head + length
}

var frameTypes = []string{"DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE", "CONTINUATION"}

// nextHTTP2 describes the first frame of b.
func nextHTTP2(b []byte) (text string, size int) {
	length, kind, stream := int(b[0])<<16|int(b[1])<<8|int(b[2]), "frame", binary.BigEndian.Uint32(b[5:])&(1<<31-1)
	if int(b[3]) < len(frameTypes) {
		kind = frameTypes[b[3]]
	}
	if stream != 0 {
		kind += fmt.Sprint(" #", stream)
	}
	return kind, 9 + length
}

// redisWords returns the words of a command of Redis, or "" for something else.
func redisWords(data string) string {
	if !strings.HasPrefix(data, "*") || !strings.Contains(data, "\r\n$") {
		return ""
	}
	var words []string
	for i, part := range strings.Split(strings.TrimSuffix(data, "\r\n"), "\r\n") {
		if i > 0 && i%2 == 0 {
			words = append(words, part)
		}
	}
	text := strings.Join(words, " ")
	if !printable(text) {
		return ""
	}
	return text
}
