package frame_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/frame"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/tracing"
)

func encoded(t testing.TB, e *relay.Envelope) []byte {
	t.Helper()
	b, err := frame.Append(nil, e)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFrameKeepsTheEnvelope(t *testing.T) {
	trace, err := tracing.Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*relay.Envelope{
		{Subject: "a"},
		{Kind: relay.KindReply},
		{Kind: relay.KindCredit, ID: 1<<64 - 1, Seq: 1<<32 - 1},
		{
			Trace: trace, ID: 7, Seq: 3, Deadline: 1500 * time.Millisecond,
			Headers: map[string]string{"k": "v", "": "Ünï\x00\n", strings.Repeat("n", 255): strings.Repeat("v", 255)}, Body: []byte{0, 1, 255},
		},
		{Headers: map[string]string{"k": strings.Repeat("v", 256)}},
		{
			Kind: relay.KindItem, Trace: trace, ID: 1<<64 - 1, Token: 1 << 63, Seq: 3, Attempt: 2, Subject: "work", ReplyTo: "_inbox.1",
			Deadline: 1500 * time.Millisecond, Headers: map[string]string{"k": "v", "Ünï": "\x00\n"}, Body: []byte{0, 1, 255},
		},
	} {
		short, err := frame.AppendShort(encoded(t, e), e)
		if err != nil {
			t.Fatal(err)
		}
		r := bytes.NewReader(short)
		for range 2 {
			got, err := frame.Read(r, 100)
			if err != nil || !reflect.DeepEqual(got, e) {
				t.Errorf("%+v, %v; want %+v", got, err, e)
			}
		}
		if _, err := frame.Read(r, 100); err != io.EOF {
			t.Errorf("at the end: %v", err)
		}
	}
}

// TestHeadersThatAreNotUTF8 has the same result with both headers, because the Python package reads UTF-8 only.
func TestHeadersThatAreNotUTF8(t *testing.T) {
	for _, e := range []*relay.Envelope{{Headers: map[string]string{"\xfc": "v"}}, {Headers: map[string]string{"k": "\xfc"}}} {
		short, err := frame.AppendShort(nil, e)
		if err != nil || !bytes.Equal(short, encoded(t, e)) {
			t.Errorf("%q, %v", short, err)
		}
	}
}

// TestFrameOfAPassedDeadline has a limit: 0 would mean that there is none.
func TestFrameOfAPassedDeadline(t *testing.T) {
	e := &relay.Envelope{Subject: "a", Deadline: time.Nanosecond}
	got, err := frame.Read(bytes.NewReader(encoded(t, e)), 0)
	if err != nil || got.Deadline <= 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestFrameOfARequestWithoutCaller has an ID: workers repeat the header's "id".
func TestFrameOfARequestWithoutCaller(t *testing.T) {
	if b := encoded(t, &relay.Envelope{Subject: "a"}); !bytes.Contains(b, []byte(`"id":"0"`)) {
		t.Errorf("%q", b)
	}
	if b := encoded(t, &relay.Envelope{Kind: relay.KindReply}); bytes.Contains(b, []byte(`"id"`)) {
		t.Errorf("%q", b)
	}
}

// raw makes a frame of any header.
func raw(header, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(header)))
	return append(append(b, header...), body...)
}

func TestBadFrames(t *testing.T) {
	for name, c := range map[string]struct {
		bytes []byte
		want  error
	}{
		"no JSON":                {raw("{", ""), frame.ErrMalformed},
		"unknown kind":           {raw(`{"kind":"wish"}`, ""), frame.ErrMalformed},
		"unknown short kind":     {raw("\x06"+strings.Repeat("\x00", 21), ""), frame.ErrMalformed},
		"cut short header":       {raw(strings.Repeat("\x00", 21), ""), frame.ErrMalformed},
		"cut short trace":        {raw(strings.Repeat("\x00", 21)+"\x02a", ""), frame.ErrMalformed},
		"cut short name":         {raw(strings.Repeat("\x00", 22)+"\x02a", ""), frame.ErrMalformed},
		"cut short value":        {raw(strings.Repeat("\x00", 22)+"\x01a\x01", ""), frame.ErrMalformed},
		"short name in Latin-1":  {raw(strings.Repeat("\x00", 22)+"\x01\xfc\x01v", ""), frame.ErrMalformed},
		"short value in Latin-1": {raw(strings.Repeat("\x00", 22)+"\x01k\x01\xfc", ""), frame.ErrMalformed},
		"no value":               {raw(strings.Repeat("\x00", 22)+"\x01a", ""), frame.ErrMalformed},
		"no kind":                {raw(`{"subject":"a"}`, ""), frame.ErrMalformed},
		"negative deadline":      {raw(`{"kind":"request","deadline_us":-1}`, ""), frame.ErrMalformed},
		"negative sequence":      {raw(`{"kind":"item","seq":-1}`, ""), frame.ErrMalformed},
		"bad id":                 {raw(`{"kind":"request","id":"x"}`, ""), frame.ErrMalformed},
		"huge id":                {raw(`{"kind":"request","id":"18446744073709551616"}`, ""), frame.ErrMalformed},
		"space in the subject":   {raw(`{"kind":"request","subject":"a b"}`, ""), frame.ErrMalformed},
		"bad reply subject":      {raw(`{"kind":"request","reply_to":"\n"}`, ""), frame.ErrMalformed},
		"long subject":           {raw(`{"kind":"request","subject":"`+strings.Repeat("a", 256)+`"}`, ""), frame.ErrMalformed},
		"header beyond the end":  {[]byte{0, 0, 0, 10, 0, 0, 0, 20}, frame.ErrMalformed},
		"lengths that overflow":  {[]byte{0, 0, 0, 1, 0, 0, 0, 0}, frame.ErrMalformed},
		"large header":           {[]byte{255, 255, 255, 255, 0, 1, 0, 1}, relay.ErrTooLarge},
		"large body":             {raw(`{"kind":"request"}`, "12345"), relay.ErrTooLarge},
		"cut sizes":              {[]byte{0, 0}, io.ErrUnexpectedEOF},
		"cut header":             {raw(`{"kind":"request"}`, "")[:12], io.ErrUnexpectedEOF},
		"cut body":               {raw(`{"kind":"request"}`, "1234")[:28], io.ErrUnexpectedEOF},
	} {
		if e, err := frame.Read(bytes.NewReader(c.bytes), 4); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v; want %v", name, e, err, c.want)
		}
	}
}

func TestFarDeadlineDoesNotOverflow(t *testing.T) {
	e, err := frame.Read(bytes.NewReader(raw(`{"kind":"request","deadline_us":9223372036854775807}`, "")), 0)
	if err != nil || e.Deadline <= 0 {
		t.Errorf("%+v, %v", e, err)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(encoded(f, &relay.Envelope{Subject: "work", ReplyTo: "r", ID: 7, Body: []byte("x"), Headers: map[string]string{"a": "b"}}))
	f.Add(raw(`{"kind":"credit","seq":4294967295,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`, ""))
	f.Add([]byte{0, 0, 0, 4, 0, 0, 0, 0})
	f.Add(raw(strings.Repeat("\x01", 21)+"\x00\x01k\x01v", "body"))
	f.Add(raw(strings.Repeat("\x01", 21)+"\x00\x01k\x01\xfc", "body"))
	many := strings.Repeat("\x01", 21) + "\x00"
	for i := range 60 {
		many += "\xff" + strings.Repeat("\x00", 254) + string(rune(i)) + "\x00"
	}
	f.Add(raw(many, ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := frame.Read(bytes.NewReader(b), 1<<16)
		if err != nil {
			return
		}
		long, err := frame.Append(nil, e)
		if errors.Is(err, relay.ErrTooLarge) { // characters may be longer in JSON
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		short, err := frame.AppendShort(long, e)
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Headers) == 0 {
			e.Headers = nil
		}
		r := bytes.NewReader(short)
		for range 2 {
			again, err := frame.Read(r, 1<<16)
			if err != nil || !reflect.DeepEqual(again, e) {
				t.Errorf("%+v, %v; want %+v", again, err, e)
			}
		}
	})
}
