//go:build spindle_python

package main

import (
	"net/netip"
	"strings"
)

// proxies are the peers that may say which client a request comes from. The access log names that
// client; the app's scope gets it from Python (TrustedProxies in config.py). A nil value trusts none.
type proxies struct {
	all      bool
	networks []netip.Prefix
	names    map[string]bool // what is not an address
}

func newProxies(allowed string) *proxies {
	t := &proxies{all: strings.TrimSpace(allowed) == "*", names: make(map[string]bool)}
	for item := range strings.SplitSeq(allowed, ",") {
		item = strings.TrimSpace(item)
		if network, err := netip.ParsePrefix(item); err == nil {
			t.networks = append(t.networks, network.Masked())
		} else if address, err := netip.ParseAddr(item); err == nil {
			t.networks = append(t.networks, netip.PrefixFrom(address, address.BitLen()))
		} else if item != "" {
			t.names[item] = true
		}
	}
	return t
}

func (t *proxies) trust(host string) bool {
	if t.all {
		return true
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return t.names[host]
	}
	address = address.WithZone("") // networks have none
	for _, network := range t.networks {
		if network.Contains(address) {
			return true
		}
	}
	return false
}

// client returns the client of a request from host with these values of X-Forwarded-For. Each proxy
// appends the address that it sees, so what precedes the last one that is not trusted can be invented.
func (t *proxies) client(host string, forwarded []string) string {
	if t == nil || len(forwarded) == 0 || !t.trust(host) {
		return host
	}
	hosts := strings.Split(strings.Join(forwarded, ","), ",")
	for i, h := range hosts {
		hosts[i] = withoutPort(strings.TrimSpace(h))
	}
	for i := len(hosts) - 1; i >= 0 && !t.all; i-- {
		if h := hosts[i]; h != "" && !t.trust(h) {
			return h
		}
	}
	if hosts[0] == "" {
		return host
	}
	return hosts[0]
}

// withoutPort returns an address without the port that some proxies append, as _split in config.py
// does.
func withoutPort(host string) string {
	if inside, ok := strings.CutPrefix(host, "["); ok {
		inside, _, _ = strings.Cut(inside, "]")
		return inside
	}
	if name, port, ok := strings.Cut(host, ":"); ok && isPort(port) {
		return name
	}
	return host
}

func isPort(s string) bool {
	return s != "" && len(s) <= 5 && strings.Trim(s, "0123456789") == ""
}
