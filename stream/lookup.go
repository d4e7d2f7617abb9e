package stream

import (
	"context"
	"net/netip"

	"github.com/spindleloop/spindle"
)

// LookupNetIP looks up the addresses of a host, as net.Resolver's LookupNetIP does;
// network is "ip", "ip4" or "ip6". An IPv4 address is always in its own form, never
// in that of IPv6. The look-up is done away from the loop; when ctx is cancelled it
// is given up at once. It fails with a *net.DNSError.
func LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	lookup, stop := context.WithCancel(context.Background())
	defer stop()
	k := spindle.LoopOf(ctx).Kernel()
	addrs, err := spindle.Abandon(ctx, func() ([]netip.Addr, error) { return k.LookupNetIP(lookup, network, host) })
	if err != nil {
		return nil, err
	}
	for i, a := range addrs {
		addrs[i] = a.Unmap()
	}
	return addrs, nil
}
