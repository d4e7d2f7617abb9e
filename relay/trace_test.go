package relay_test

import (
	"strings"
	"testing"

	"github.com/spindleloop/spindle/tracing"
)

func TestTraceparent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	trace, err := tracing.Parse(good)
	if err != nil || trace.String() != good {
		t.Errorf("%v, %v", trace, err)
	}
	if later, err := tracing.Parse("cc" + good[2:] + "-more"); err != nil || later != trace {
		t.Errorf("a later version: %v, %v", later, err)
	}
	for _, bad := range []string{
		"", "00", "ff" + good[2:], good + "-more", strings.ToUpper(good), "0" + good, good[:len(good)-1],
		"00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"00-0af7651916cd43dd8448eb211c80319x-b7ad6b7169203331-01",
	} {
		if got, err := tracing.Parse(bad); err == nil || got != (tracing.Context{}) {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}
