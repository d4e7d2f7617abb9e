package wsframe_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"github.com/spindleloop/spindle/internal/wsframe"
)

// received is a complete message or control frame.
type received struct {
	what string // "text", "binary", "ping", "pong", "close"; "compressed …"
	data string
	code wsframe.Code
}

// decode feeds a stream to a decoder in pieces, with the sizes that pieceSize returns.
// It returns what the decoder received before an error or the end of the stream.
func decode(role wsframe.Role, l *wsframe.Limits, stream []byte, pieceSize func() int) (all []received, err error) {
	limits := *l
	limits.Role = role
	var d wsframe.Decoder
	var message []byte
	for rest := stream; len(rest) > 0; {
		piece := bytes.Clone(rest[:min(len(rest), pieceSize())])
		rest = rest[len(piece):]
		for len(piece) > 0 {
			n, e, err := d.Next(&limits, piece)
			if err != nil {
				return all, err
			}
			piece = piece[n:]
			switch e.Type {
			case wsframe.Data:
				if message = append(message, e.Payload...); e.Final {
					what := "text"
					if e.Op == wsframe.OpBinary {
						what = "binary"
					}
					if e.Compressed {
						what = "compressed " + what
					}
					all = append(all, received{what: what, data: string(message)})
					message = nil
				}
			case wsframe.Ping:
				all = append(all, received{what: "ping", data: string(e.Payload)})
			case wsframe.Pong:
				all = append(all, received{what: "pong", data: string(e.Payload)})
			case wsframe.Close:
				return append(all, received{"close", string(e.Payload), e.Code}), nil
			}
		}
	}
	return all, nil
}

// model reads a complete stream frame by frame, as the text of the RFC describes it.
// It is simple rather than incremental or fast.
func model(role wsframe.Role, l *wsframe.Limits, stream []byte) (all []received, err error) {
	var message []byte
	var kind byte
	var compressed bool
	frames := 0
	for len(stream) >= 2 {
		fin, rsv1, op := stream[0]>>7 == 1, stream[0]>>6&1 == 1, stream[0]&15
		masked, short := stream[1]>>7 == 1, int(stream[1]&127)
		switch {
		case stream[0]&0x30 != 0, rsv1 && (!l.Deflate || op != 1 && op != 2):
			return all, errInvalid
		case op > 2 && op < 8 || op > 10:
			return all, errInvalid
		case op >= 8 && (!fin || short > 125):
			return all, errInvalid
		case masked != (role == wsframe.Server):
			return all, errInvalid
		case op == 0 && kind == 0, op != 0 && op < 8 && kind != 0:
			return all, errInvalid
		}
		at, size := 2, uint64(short)
		for extra := map[int]int{126: 2, 127: 8}[short]; extra > 0; extra-- {
			if at == 2 {
				size = 0
			}
			if at == len(stream) {
				return all, nil
			}
			size = size<<8 | uint64(stream[at])
			at++
		}
		var key [4]byte
		if masked {
			if at+4 > len(stream) {
				return all, nil
			}
			at += copy(key[:], stream[at:])
		}
		if short == 126 && size < 126 || short == 127 && (size < 65536 || size >= 1<<63) {
			return all, errInvalid
		}
		if op < 8 {
			if op != 0 {
				kind, compressed, frames = op, rsv1, 0
			}
			frames++
			most := uint64(l.Message)
			if compressed {
				most = uint64(l.CompressedMessage())
			}
			if size > uint64(l.Frame) || uint64(len(message))+size > most || frames > l.Fragments {
				return all, errInvalid
			}
		}
		payload := bytes.Clone(stream[at:])
		payload = payload[:min(uint64(len(payload)), size)]
		for i := range payload {
			payload[i] ^= key[i%4]
		}
		whole := uint64(len(payload)) == size
		if op < 8 {
			message = append(message, payload...)
			if kind == 1 && !compressed && !canBeText(message, whole && fin) {
				return all, errInvalid
			}
		}
		if !whole {
			return all, nil
		}
		stream = stream[at+int(size):]
		name := map[byte]string{1: "text", 2: "binary", 8: "close", 9: "ping", 10: "pong"}
		switch {
		case op == 8 && size == 0:
			return append(all, received{"close", "", wsframe.NoStatus}), nil
		case op == 8:
			if size == 1 || !utf8.Valid(payload[2:]) {
				return all, errInvalid
			}
			code := wsframe.Code(payload[0])<<8 | wsframe.Code(payload[1])
			if code < 1000 || code > 4999 || code >= 1004 && code <= 1006 || code >= 1015 && code <= 2999 {
				return all, errInvalid
			}
			return append(all, received{"close", string(payload[2:]), code}), nil
		case op > 8:
			all = append(all, received{what: name[op], data: string(payload)})
		case fin:
			what := name[kind]
			if compressed {
				what = "compressed " + what
			}
			all = append(all, received{what: what, data: string(message)})
			message, kind = nil, 0
		}
	}
	return all, nil
}

var errInvalid = errors.New("invalid stream")

// canBeText reports whether p is UTF-8 or, unless it is complete, can become UTF-8.
func canBeText(p []byte, complete bool) bool {
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if r == utf8.RuneError && n == 1 {
			if complete {
				return false
			}
			// It may be the beginning of a character. Try all its continuations.
			for _, rest := range [...]string{"\x80", "\x90", "\xa0", "\x80\x80", "\x90\x80", "\xa0\x80", "\x80\x80\x80", "\x90\x80\x80", "\xa0\x80\x80"} {
				longer := string(p) + rest
				if len(p) <= 3 && utf8.RuneCountInString(longer) == 1 && utf8.ValidString(longer) {
					return true
				}
			}
			return false
		}
		p = p[n:]
	}
	return true
}

// agree compares the decoder with the model: in one piece, byte by byte and in random
// pieces.
func agree(t *testing.T, role wsframe.Role, l *wsframe.Limits, stream []byte) {
	t.Helper()
	want, wantErr := model(role, l, stream)
	r := rand.New(rand.NewPCG(uint64(len(stream)), 1))
	for how, pieceSize := range map[string]func() int{
		"whole":     func() int { return len(stream) },
		"by bytes":  func() int { return 1 },
		"in pieces": func() int { return 1 + r.IntN(9) },
	} {
		got, err := decode(role, l, stream, pieceSize)
		if (err != nil) != (wantErr != nil) || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%s: %q\ngot  %+v, %v\nwant %+v, %v", how, stream, got, err, want, wantErr)
		}
	}
}

func FuzzDecoder(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		role := wsframe.Role(r.IntN(2))
		f.Add(byte(role), randomStream(r, role))
	}
	f.Fuzz(func(t *testing.T, how byte, stream []byte) {
		l := &wsframe.Limits{Message: 300, Frame: 200, Fragments: 5, Deflate: how&2 != 0}
		agree(t, wsframe.Role(how&1), l, stream)
	})
}

// randomStream returns random frames, most of them valid.
func randomStream(r *rand.Rand, role wsframe.Role) (stream []byte) {
	words := []string{"", "Hello", "κόσμε", "\xed\xa0\x80", "\xf4\x8f\xbf\xbf", "\xce", "\xba", string(make([]byte, 126)), "\x03\xe8bye", "\x03\xed"}
	ops := []wsframe.Op{0, 0, 1, 1, 2, 8, 9, 10, 3}
	for range 1 + r.IntN(6) {
		op, word := ops[r.IntN(len(ops))], []byte(words[r.IntN(len(words))])
		flags := wsframe.Fin
		switch r.IntN(12) {
		case 0, 1, 2:
			flags = 0
		case 3:
			flags |= wsframe.Compressed
		case 4:
			flags |= 0x10
		}
		if (role == wsframe.Server) != (r.IntN(20) == 0) {
			stream = wsframe.AppendMaskedFrame(stream, op, flags, word, wsframe.Key{1, 2, 3, byte(r.IntN(256))})
		} else {
			stream = wsframe.AppendFrame(stream, op, flags, word)
		}
	}
	return stream
}

func TestRandomStreamsAgainstTheModel(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	events := 0
	for i := range 20_000 {
		role := wsframe.Role(i & 1)
		l := &wsframe.Limits{Message: 300, Frame: 200, Fragments: 5, Deflate: i&2 != 0}
		stream := randomStream(r, role)
		agree(t, role, l, stream)
		got, _ := model(role, l, stream)
		events += len(got)
	}
	if events < 5_000 {
		t.Errorf("%d events, want at least 5,000: too few of the streams are valid", events)
	}
}
