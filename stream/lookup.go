package stream

import (
	"context"
	"net/netip"

	"github.com/spindleloop/spindle"
)

// LookupNetIP looks up the addresses of a host, as net.Resolver's LookupNetIP does.
// The network is "ip", "ip4" or "ip6". IPv4 addresses are never returned in their
// IPv4-mapped IPv6 form. The lookup runs on a worker; when ctx is cancelled,
// LookupNetIP returns at once. A failed lookup returns a *net.DNSError.
func LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	lookup, stop := context.WithCancel(context.Background())
	defer stop()
	k := spindle.LoopOf(ctx).Internal().Kernel()
	addrs, err := spindle.Abandon(ctx, func() ([]netip.Addr, error) { return k.LookupNetIP(lookup, network, host) })
	if err != nil {
		return nil, err
	}
	for i, a := range addrs {
		addrs[i] = a.Unmap()
	}
	return addrs, nil
}
