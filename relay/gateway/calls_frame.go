package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// callFrame is a frame from a client.
type callFrame struct {
	Type        string  `json:"type"`
	ID          uint64  `json:"id"`
	Body        *string `json:"body"`
	Data        *string `json:"data"`
	Credit      *uint32 `json:"credit"`
	N           uint32  `json:"n"`
	Traceparent string  `json:"traceparent"`
	Tracestate  string  `json:"tracestate"`
}

// maxCallID is the largest integer that JavaScript's numbers have without gaps.
const maxCallID = 1<<53 - 1

// parseCallFrame parses a message of a client. The text of an error is for the client.
func parseCallFrame(message []byte) (f callFrame, err error) {
	if err := json.Unmarshal(message, &f); err != nil {
		return f, errors.New("not a frame in JSON")
	}
	switch f.Type {
	case "call", "cancel":
	case "credit":
		if f.N == 0 {
			return f, errors.New("credit: n must be from 1 to 4294967295")
		}
	case "":
		return f, errors.New("a frame without a type")
	default:
		return f, errors.New("no frame from a client has this type")
	}
	if f.ID == 0 || f.ID > maxCallID {
		return f, errors.New(f.Type + ": id must be an integer from 1 to 2^53-1")
	}
	return f, nil
}

// body returns the body of a call.
func (f *callFrame) body() ([]byte, error) {
	switch {
	case f.Body != nil && f.Data != nil:
		return nil, errors.New("call: both body and data")
	case f.Body != nil:
		return []byte(*f.Body), nil
	case f.Data != nil:
		body, err := base64.StdEncoding.DecodeString(*f.Data)
		if err != nil {
			return nil, errors.New("call: data is not base64")
		}
		return body, nil
	}
	return nil, nil
}

// credit returns how many items a call may send at first.
func (f *callFrame) credit() uint32 {
	if f.Credit == nil {
		return 1
	}
	return *f.Credit
}

// answerFrame is a frame to a client.
type answerFrame struct {
	Type       string  `json:"type"`
	ID         uint64  `json:"id,omitempty"`
	Body       *string `json:"body,omitempty"`
	Data       []byte  `json:"data,omitempty"` // which JSON has in base64
	Status     int     `json:"status,omitempty"`
	Reason     string  `json:"reason,omitempty"`
	RetryAfter int     `json:"retryAfter,omitempty"`
}

// helloFrame is the first frame to a client.
type helloFrame struct {
	Type     string `json:"type"`
	MaxCalls int    `json:"maxCalls"`
	MaxBody  int64  `json:"maxBody"`
}

func itemFrame(id uint64, item []byte) answerFrame {
	f := answerFrame{Type: "item", ID: id}
	if utf8.Valid(item) {
		text := string(item)
		f.Body = &text
	} else {
		f.Data = item
	}
	return f
}

// encodeFrame returns a frame as JSON. Text stays as it is: no page has it in its HTML.
func encodeFrame(frame any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(frame); err != nil {
		panic("relay/gateway: " + err.Error()) // these types have no values that JSON has not
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
