package kernel

import (
	"errors"
	"fmt"
	"strings"
)

// backend is a poller that this system has. The table backends lists the best one
// first.
type backend struct {
	name string
	open func() (Poller, error)
}

// Backends returns the names that Open accepts on this system, best first.
func Backends() []string {
	names := make([]string, len(backends))
	for i, b := range backends {
		names[i] = b.name
	}
	return names
}

// Open returns a real kernel with the named poller. The names "" and "auto" select
// the best poller of this system.
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
