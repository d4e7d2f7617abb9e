package simkernel

import (
	"runtime"
	"testing"
)

// TestSwitches: both kinds pass control to the goroutine that yielded, report the end of main,
// and give a panic to the driver.
func TestSwitches(t *testing.T) {
	for name, newSwitch := range map[string]func(func(func())) func() bool{"pull": pullSwitch, "channels": channelSwitch} {
		t.Run(name, func(t *testing.T) {
			if name == "pull" && !pullSwitches() {
				t.Skip("not on this version of Go")
			}
			if !anotherMayYield(newSwitch) {
				t.Error("another goroutine cannot yield")
			}
			next := newSwitch(func(yield func()) { yield(); panic("main") })
			if !next() {
				t.Error("main has not yielded")
			}
			defer func() {
				if v := recover(); v != "main" {
					t.Errorf("recovered %v", v)
				}
			}()
			next()
			t.Error("the panic did not reach the driver")
		})
	}
}

// TestSwitchRefusedFallsBack: a yield that refuses other goroutines is noticed.
func TestSwitchRefusedFallsBack(t *testing.T) {
	strict := func(main func(func())) func() bool {
		return channelSwitch(func(yield func()) {
			owner := callerName()
			main(func() {
				if callerName() != owner {
					panic("another goroutine")
				}
				yield()
			})
		})
	}
	if anotherMayYield(strict) {
		t.Error("a strict switch passed")
	}
	atOnce := func(main func(func())) func() bool {
		return channelSwitch(func(func()) { main(func() {}) })
	}
	if anotherMayYield(atOnce) {
		t.Error("a yield that returns at once passed")
	}
}

// callerName identifies the calling goroutine by its stack trace.
func callerName() string {
	buf := make([]byte, 32)
	return string(buf[:runtime.Stack(buf, false)])
}
