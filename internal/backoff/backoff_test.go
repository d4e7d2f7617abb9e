package backoff_test

import (
	"math"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/backoff"
)

// TestBackoff: a pause is twice the one before, up to the limit, however many failures there are.
func TestBackoff(t *testing.T) {
	for _, b := range []backoff.Backoff{
		{First: time.Nanosecond, Most: time.Second},
		{First: time.Minute, Most: 10 * time.Minute},
		{First: time.Hour, Most: time.Minute},
		{First: time.Second, Most: math.MaxInt64},
	} {
		for round := range 2 {
			want := min(b.First, b.Most)
			for i := range 100 {
				if got := b.Next(); got != want {
					t.Fatalf("%+v: round %d: pause %d is %v, want %v", b, round, i, got, want)
				}
				want += min(want, b.Most-want)
			}
			b.Reset()
		}
	}
}
