package relaytest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/relaytest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestLocal tests the bus inside the process.
func TestLocal(t *testing.T) {
	for name, o := range map[string]relay.LocalOptions{"usual": {}, "a queue of one": {Queue: 1}} {
		t.Run(name, func(t *testing.T) {
			var bus relay.Bus
			var of *testing.T
			relaytest.Run(t, relaytest.Config{
				Connect: func(context.Context) (relay.Bus, error) { return bus, nil },
				Run: func(t *testing.T, program func(context.Context) error) {
					if of != t {
						bus, of = relay.NewLocal(o), t
					}
					if err := spindle.Run(t.Context(), program); err != nil {
						t.Error(err)
					}
				},
			})
		})
	}
}

// A program that tests its own bus calls Run in a test.
func Example() {
	test := func(t *testing.T) {
		bus := relay.NewLocal(relay.LocalOptions{})
		relaytest.Run(t, relaytest.Config{Connect: func(context.Context) (relay.Bus, error) { return bus, nil }})
	}
	fmt.Printf("%T\n", test)
	// Output: func(*testing.T)
}
