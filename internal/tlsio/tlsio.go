// Package tlsio is what the callback model (package transport) and the coroutine
// model (package stream) share of TLS: how crypto/tls is told to come again later,
// and the limits of what is kept for a peer. Why it is done so stands in
// docs/design/012-tls.md.
package tlsio

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

// ErrLater is what a connection below crypto/tls answers when there is nothing to
// be read yet. Crypto/tls takes it for temporary, and can be asked to read again.
var ErrLater net.Error = laterError{}

type laterError struct{}

func (laterError) Error() string   { return "tls: nothing to read yet" }
func (laterError) Timeout() bool   { return true }
func (laterError) Temporary() bool { return true }

// ErrSilent is for peers that make us write and do not read it.
var ErrSilent = errors.New("tls: the peer asks for answers and does not read them")

// MostOwed is how many bytes are kept of what a peer has caused: some hundred
// answers to its asking for new keys, of which an honest one has none or two on the
// way.
const MostOwed = 4 << 10

// MostAtOnce is how many bytes are encrypted before they must have gone out.
const MostAtOnce = 64 << 10

// Patience is how long a handshake may take where nobody says.
const Patience = 10 * time.Second

// RefuseRenegotiation fails for a client's configuration that allows it: that would be
// a handshake inside of Read.
func RefuseRenegotiation(config *tls.Config) error {
	if config == nil || config.Renegotiation == tls.RenegotiateNever {
		return nil
	}
	return fmt.Errorf("tls: Config.Renegotiation: %w", errors.ErrUnsupported)
}

// RefuseSimulated fails on a simulated kernel where TLS would not be the same every
// time: secrets are drawn from crypto/rand, which follows from the seed only in tests,
// and the authorities that a client trusts, if its configuration has none, are the
// machine's.
func RefuseSimulated(k *kernel.Kernel, config *tls.Config, client bool) error {
	switch {
	case k.Real():
		return nil
	case !k.Secret():
		return fmt.Errorf("tls: in a simulated world it is for tests that are not parallel (sim.Test, sim.Explore), where its secrets follow from the seed: %w", errors.ErrUnsupported)
	case client && (config == nil || config.RootCAs == nil && !config.InsecureSkipVerify):
		return fmt.Errorf("tls: Config.RootCAs must be set in a simulated world, which has no system whose authorities could be read: %w", errors.ErrUnsupported)
	}
	return nil
}

// ForServer is the configuration of a client that connects to an address: one that
// names no server gets that of the address. Its cache of sessions stays shared.
func ForServer(config *tls.Config, address string) *tls.Config {
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
