package sim_test

import (
	"context"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

// sendOnce is a world in which a client sends a text by datagram.
func sendOnce(w *sim.World, text string) {
	w.Host("server").Go(func(ctx context.Context) error {
		pc, err := stream.ListenPacket(ctx, "udp", ":9")
		if err != nil {
			return err
		}
		defer pc.Close()
		_, _, err = pc.ReadFromAddrPort(make([]byte, 1000))
		return err
	})
	w.Host("client").Go(func(ctx context.Context) error {
		pc, err := stream.DialPacket(ctx, "udp", "server:9")
		if err != nil {
			return err
		}
		defer pc.Close()
		_, err = pc.Write([]byte(text))
		return err
	})
}

// TestTraceKeepsLongMessages: 200 bytes of each, or World.KeepData.
func TestTraceKeepsLongMessages(t *testing.T) {
	for _, test := range []struct{ set, size, want int }{{0, 100, 100}, {0, 500, 200}, {500, 500, 500}, {3, 10, 3}, {-1, 10, 0}} {
		w := sim.NewWorld(1)
		w.KeepData = test.set
		text := strings.Repeat("abcdefghij", 50)[:test.size]
		sendOnce(w, text)
		if err := w.Run(); err != nil {
			t.Fatal(err)
		}
		e := w.Trace()[0]
		if e.Kind != "datagram" || e.Size != test.size || e.Data != text[:test.want] {
			t.Errorf("KeepData %d: %+v", test.set, e)
		}
	}
}

// TestTraceFormat: World.Format describes messages in the trace and in the story of a
// failure.
func TestTraceFormat(t *testing.T) {
	w := sim.NewWorld(1)
	w.Format = func(e sim.Event) string {
		if strings.HasPrefix(e.Data, "\x01") {
			return "hello from " + e.Data[1:]
		}
		return ""
	}
	sendOnce(w, "\x01alice")
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	e := w.Trace()[0]
	if e.Text != "hello from alice" || e.Data != "\x01alice" || !strings.HasSuffix(e.String(), "6 bytes [hello from alice]") {
		t.Errorf("%+v: %v", e, e)
	}
	if story := (&sim.Failure{World: w, Err: context.Canceled}).Story(""); !strings.Contains(story, "[hello from alice]") {
		t.Error(story)
	}
}
