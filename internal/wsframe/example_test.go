package wsframe_test

import (
	"fmt"

	"github.com/spindleloop/spindle/internal/wsframe"
)

func Example() {
	stream := wsframe.AppendFrame(nil, wsframe.OpPing, wsframe.Fin, nil)
	stream = wsframe.AppendFrame(stream, wsframe.OpText, wsframe.Fin, []byte("hello"))
	d := wsframe.NewDecoder(wsframe.Client, &wsframe.Limits{Message: 100, Frame: 100, Fragments: 1})
	for len(stream) > 0 {
		n, event, err := d.Next(stream)
		if err != nil {
			fmt.Println(err)
			return
		}
		stream = stream[n:]
		switch event.Type {
		case wsframe.Ping:
			fmt.Println("a ping")
		case wsframe.Data:
			fmt.Printf("%s %v\n", event.Payload, event.Final)
		}
	}
	// Output:
	// a ping
	// hello true
}
