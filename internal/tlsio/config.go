package tlsio

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

// DefaultHandshakeTimeout limits a handshake for which no timeout is configured.
const DefaultHandshakeTimeout = 10 * time.Second

// CheckRenegotiation fails if a client's configuration allows renegotiation, which
// would run a handshake inside Read.
func CheckRenegotiation(config *tls.Config) error {
	if config == nil || config.Renegotiation == tls.RenegotiateNever {
		return nil
	}
	return fmt.Errorf("tls: Config.Renegotiation: %w", errors.ErrUnsupported)
}

// CheckSimulated fails on a simulated kernel if TLS would not be deterministic.
// Secrets come from crypto/rand, which follows the seed only in tests. A client
// without RootCAs trusts the authorities of the machine.
func CheckSimulated(k *kernel.Kernel, config *tls.Config, client bool) error {
	switch {
	case k.Real():
		return nil
	case !k.Secret():
		return fmt.Errorf("tls: a simulation supports TLS only in tests that are not parallel (sim.Test, sim.Explore), where secrets follow from the seed: %w", errors.ErrUnsupported)
	case client && UsesSystemRoots(config):
		return fmt.Errorf("tls: set Config.RootCAs in a simulation, which has no system certificate authorities: %w", errors.ErrUnsupported)
	}
	return nil
}

// UsesSystemRoots reports whether a client with this configuration trusts the certificate
// authorities of the machine.
func UsesSystemRoots(config *tls.Config) bool {
	return config == nil || config.RootCAs == nil && !config.InsecureSkipVerify
}

// ClientConfig returns the configuration for a client that connects to address. If
// config has no ServerName, the result is a clone with the host of address; the clone
// shares the session cache.
func ClientConfig(config *tls.Config, address string) *tls.Config {
	if config != nil && config.ServerName != "" {
		return config
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if config == nil {
		config = &tls.Config{}
	}
	config = config.Clone()
	config.ServerName = host
	return config
}
