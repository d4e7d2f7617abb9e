package tracing_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/spindleloop/spindle/tracing"
)

const value = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func Example() {
	trace, err := tracing.Parse(value)
	if err != nil {
		fmt.Println(err)
		return
	}
	trace.State = "congo=t61rcWkgMzE"
	ctx := tracing.With(context.Background(), trace)
	fmt.Println(tracing.Of(ctx), tracing.Of(ctx).State)
	// Output: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 congo=t61rcWkgMzE
}

func FuzzParse(f *testing.F) {
	f.Add(value)
	f.Add("00-00000000000000000000000000000000-b7ad6b7169203331-01")
	f.Add("cc" + value[2:] + "-what-the-future-brings")
	f.Fuzz(func(t *testing.T, s string) {
		span, err := tracing.Parse(s)
		if err != nil {
			return
		}
		if again, err := tracing.Parse(span.String()); err != nil || again != span {
			t.Errorf("%q is parsed as %v, and that as %v, %v", s, span, again, err)
		}
	})
}
