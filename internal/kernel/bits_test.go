package kernel_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
)

func TestReadyString(t *testing.T) {
	for ready, want := range map[kernel.Ready]string{
		0:                               "none",
		kernel.Readable:                 "readable",
		kernel.Readable | kernel.HangUp: "readable|hang-up",
		kernel.Urgent:                   "urgent",
		kernel.Readable | kernel.Writable | kernel.HangUp | kernel.Failed | kernel.Urgent: "readable|writable|hang-up|failed|urgent",
	} {
		if got := ready.String(); got != want {
			t.Errorf("%#x is %q, want %q", uint8(ready), got, want)
		}
	}
}
