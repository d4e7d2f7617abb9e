package broker_test

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/relay/nats/broker"
)

func ExampleStart() {
	b, err := broker.Start(broker.Options{})
	if err != nil {
		panic(err)
	}
	defer b.Close()
	nc, err := nats.Connect(b.URL())
	if err != nil {
		panic(err)
	}
	defer nc.Close()
	fmt.Println(nc.Status())
	// Output: CONNECTED
}
