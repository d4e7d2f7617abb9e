package traceparent_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/spindleloop/spindle/internal/traceparent"
)

const value = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func Example() {
	span, err := traceparent.Parse(value)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := traceparent.With(context.Background(), span, "congo=t61rcWkgMzE")
	fmt.Println(traceparent.Of(ctx))
	// Output: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 congo=t61rcWkgMzE
}

func FuzzParse(f *testing.F) {
	f.Add(value)
	f.Add("00-00000000000000000000000000000000-b7ad6b7169203331-01")
	f.Add("cc" + value[2:] + "-what-the-future-brings")
	f.Fuzz(func(t *testing.T, s string) {
		span, err := traceparent.Parse(s)
		if err != nil {
			return
		}
		if again, err := traceparent.Parse(span.String()); err != nil || again != span {
			t.Errorf("%q is parsed as %v, and that as %v, %v", s, span, again, err)
		}
	})
}
