package kernel

import (
	"errors"
	"fmt"
	"strings"
)

// backend is a row of the table of pollers this system has, best first.
type backend struct {
	name string
	open func() (Poller, error)
}

// Backends are the names that Open takes here, best first.
func Backends() []string {
	names := make([]string, len(backends))
	for i, b := range backends {
		names[i] = b.name
	}
	return names
}

// Open returns the real kernel. The name picks its poller; "" and "auto" pick
// the best there is.
func Open(name string) (*Kernel, error) {
	if len(backends) == 0 {
		return nil, fmt.Errorf("kernel: no poller for this system: %w", errors.ErrUnsupported)
	}
	for _, b := range backends {
		if name != b.name && name != "" && name != "auto" {
			continue
		}
		p, err := b.open()
		if err != nil {
			return nil, fmt.Errorf("kernel: open %s: %w", b.name, err)
		}
		sys := newSystem()
		return &Kernel{Poller: p, Sockets: &sockets{}, Clock: sys, Rand: sys, Workers: sys, Resolver: sys, Follower: sys}, nil
	}
	return nil, fmt.Errorf("%w %q (have auto, %s)", ErrUnknownBackend, name, strings.Join(Backends(), ", "))
}
