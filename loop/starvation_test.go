package loop

import (
	"testing"
	"time"
)

func TestStarves(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name       string
		wall, cpu  time.Duration
		contenders int
		want       bool
	}{
		{"computes alone", 100 * ms, 99 * ms, 1, false},
		{"computes beside another on a second CPU", 100 * ms, 198 * ms, 2, false},
		{"one of nine on one CPU", 100 * ms, 100 * ms, 9, true},
		{"other processes have the CPU", 100 * ms, 10 * ms, 1, true},
		{"other processes have most of two CPUs", 100 * ms, 60 * ms, 2, true},
		{"nothing is known of the others", 100 * ms, 99 * ms, 0, false},
	} {
		if got := starves(tc.wall, tc.cpu, tc.contenders); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
