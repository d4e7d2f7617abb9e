package frame_test

import (
	"bytes"
	"fmt"

	"github.com/spindleloop/spindle/internal/frame"
	"github.com/spindleloop/spindle/relay"
)

// A frame is an envelope as bytes.
func Example() {
	b, err := frame.Append(nil, &relay.Envelope{Kind: relay.KindReply, ID: 7, Body: []byte("hello")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%q\n", b)
	e, err := frame.Read(bytes.NewReader(b), 100)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Kind, e.ID, string(e.Body))
	// Output:
	// "\x00\x00\x00\"\x00\x00\x00\x19{\"kind\":\"reply\",\"id\":\"7\"}hello"
	// reply 7 hello
}
