package numbers_test

import (
	"testing"

	"github.com/spindleloop/spindle/cmd/spindle/numbers"
)

func TestThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.00", 0.126: "0.13", 1.5: "1.50", 9.97: "9.97", 9.996: "10.0", 99.4: "99.4", 99.7: "99.7", 99.96: "100", 702: "702", 1234: "1234",
	} {
		if got := numbers.ThreeDigits(v); got != want {
			t.Errorf("ThreeDigits(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := numbers.Thousands(n); got != want {
			t.Errorf("Thousands(%d) = %q, want %q", n, got, want)
		}
	}
}
