package nats_test

import (
	"bytes"
	"testing"

	client "github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/relay/nats"
)

// FuzzMessage: any message of NATS is an envelope or an error. An envelope that can be sent
// again is the same afterwards.
func FuzzMessage(f *testing.F) {
	f.Add("work", "_inbox.0123456789abcdef01234567.AAAA.42", "", "", []byte("body"))
	f.Add("_inbox.0123456789abcdef01234567.42", "", "", "", []byte("a reply"))
	f.Add("work", "", "request 7 0 1 1000 _inbox.0123456789abcdef01234567", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", []byte(nil))
	f.Add("work", "", "item 18446744073709551615 4294967295 0 9223372036854775807", "00-", []byte("x"))
	f.Fuzz(func(t *testing.T, subject, reply, fields, trace string, body []byte) {
		m := &client.Msg{Subject: subject, Reply: reply, Data: body}
		if fields != "" || trace != "" {
			m.Header = client.Header{"Relay": {fields}, "traceparent": {trace}}
		}
		e, err := nats.Decode(m)
		if err != nil {
			return
		}
		if !bytes.Equal(e.Body, body) {
			t.Errorf("%+v", e)
		}
		var again client.Msg
		if nats.Encode(&again, e) != nil {
			return // its subject is not one
		}
		twice, err := nats.Decode(&again)
		if err != nil || twice.Kind != e.Kind || twice.ID != e.ID || twice.Seq != e.Seq || !bytes.Equal(twice.Body, body) {
			t.Errorf("%+v became %+v, %v", e, twice, err)
		}
	})
}
