package stream_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

// TestPacketsMayBeBroadcast: as in net, without an option.
func TestPacketsMayBeBroadcast(t *testing.T) {
	w := sim.NewWorld(1)
	got := ""
	far, near := w.Host("far"), w.Host("near")
	far.Go(func(ctx context.Context) error {
		c, err := stream.ListenPacket(ctx, "udp4", ":53")
		if err != nil {
			return err
		}
		defer c.Close()
		p := make([]byte, 10)
		n, err := c.Read(p)
		got = string(p[:n])
		return err
	})
	near.Go(func(ctx context.Context) error {
		if err := spindle.Sleep(ctx, time.Second); err != nil {
			return err
		}
		c, err := stream.ListenPacket(ctx, "udp4", ":0")
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.WriteToAddrPort([]byte("all"), netip.MustParseAddrPort("255.255.255.255:53"))
		return err
	})
	if err := w.Run(); err != nil || got != "all" {
		t.Errorf("got %q, %v", got, err)
	}
}
