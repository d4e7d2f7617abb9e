package stream_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// resolver is a function as a Resolver.
type resolver func(ctx context.Context, network, host string) ([]netip.Addr, error)

func (r resolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return r(ctx, network, host)
}

func withResolver(t *testing.T, r resolver, program func(context.Context) error) {
	t.Helper()
	k, err := kernel.Open("")
	if err != nil {
		t.Fatal(err)
	}
	k.Resolver = r
	err = spindle.Options{Loop: loop.Internal().WithKernel(loop.Options{}, k)}.Run(t.Context(), program)
	if err != nil { // an abandoned lookup may outlive the run
		t.Error(err)
	}
}

func ExampleLookupNetIP() {
	spindle.Run(context.Background(), func(ctx context.Context) error {
		addrs, err := stream.LookupNetIP(ctx, "ip4", "127.0.0.1")
		fmt.Println(addrs)
		return err
	})
	// Output: [127.0.0.1]
}

func TestLookupUnmapsIPv4Addresses(t *testing.T) {
	withResolver(t, func(context.Context, string, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("::ffff:10.0.0.1"), netip.MustParseAddr("2001:db8::1")}, nil
	}, func(ctx context.Context) error {
		addrs, err := stream.LookupNetIP(ctx, "ip", "example")
		if fmt.Sprint(addrs) != "[10.0.0.1 2001:db8::1]" {
			t.Error(addrs)
		}
		return err
	})
}

func TestFailedLookup(t *testing.T) {
	withResolver(t, func(_ context.Context, _, host string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}, func(ctx context.Context) error {
		_, err := stream.LookupNetIP(ctx, "ip", "nowhere")
		if why := (*net.DNSError)(nil); !errors.As(err, &why) || why.Name != "nowhere" {
			t.Errorf("got %v", err)
		}
		return nil
	})
}

// TestCancelledLookup checks that the call returns at once and that the resolver's
// context ends.
func TestCancelledLookup(t *testing.T) {
	called, ended := make(chan struct{}), make(chan struct{})
	withResolver(t, func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
		close(called)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}, func(ctx context.Context) error {
		err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			l := spindle.LoopOf(ctx)
			go func() {
				<-called
				l.Post(func() { s.Cancel(nil) })
			}()
			_, err := stream.LookupNetIP(ctx, "ip", "slow")
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			return err
		})
		<-ended
		return err
	})
}
