package nats

import (
	"testing"
	"time"
)

// TestReconnectDelay: the delay doubles, within bounds, and differs between clients.
func TestReconnectDelay(t *testing.T) {
	for n, most := range map[int]time.Duration{0: 50 * time.Millisecond, 1: 50 * time.Millisecond, 2: 100 * time.Millisecond, 5: 800 * time.Millisecond, 8: 5 * time.Second, 1 << 30: 5 * time.Second} {
		different := map[time.Duration]bool{}
		for range 100 {
			d := reconnectDelay(n)
			if d < most/2 || d > most {
				t.Errorf("attempt %d: %v, want %v to %v", n, d, most/2, most)
			}
			different[d] = true
		}
		if len(different) < 10 {
			t.Errorf("attempt %d: %d different delays", n, len(different))
		}
	}
}
