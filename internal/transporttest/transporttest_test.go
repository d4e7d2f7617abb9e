package transporttest_test

import (
	"fmt"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/transporttest"
)

func TestMain(m *testing.M) { leak.Main(m) }

func open(tb testing.TB, name string) *kernel.Kernel {
	k, err := kernel.Open(name)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// TestEveryKernel runs all programs on each poller that the system supports.
func TestEveryKernel(t *testing.T) {
	for _, name := range short.Backends() {
		t.Run(name, func(t *testing.T) {
			traits := transporttest.Traits{}
			if short.UnderRace || !short.Full() {
				traits.Places = 4
			}
			if testing.Short() {
				traits.Places, traits.Networks = 2, []string{"unix"}
			}
			transporttest.Run(t, traits, func(tb testing.TB) *kernel.Kernel { return open(tb, name) })
		})
	}
}

func ExamplePlay() {
	k, err := kernel.Open("")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(transporttest.Play(k, "unix", "Echo", "one byte read at a time", 1))
	// Output: <nil>
}
