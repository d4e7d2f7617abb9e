package relay_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/spindleloop/spindle/relay"
)

// TestOrderInWhichQueuedRequestsFail is that of their subjects, so that a simulated run is the same
// each time.
func TestOrderInWhichQueuedRequestsFail(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	var failed []uint64
	if _, err := bus.Listen(t.Context(), "replies", func(e *relay.Envelope) { failed = append(failed, e.ID) }); err != nil {
		t.Fatal(err)
	}
	want := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for _, id := range want {
		subject := "work" + strconv.FormatUint(id, 10)
		if _, err := bus.Subscribe(t.Context(), subject, "g"); err != nil {
			t.Fatal(err)
		}
		if err := bus.TryPublish(&relay.Envelope{Subject: subject, ReplyTo: "replies", ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	if err := bus.Close(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(failed, want) {
		t.Errorf("requests failed in the order %v", failed)
	}
}
