package nats

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// A server that does not answer is noticed after three intervals.
const (
	pingInterval = 800 * time.Millisecond
	maxPings     = 2
)

// events are the options for what happens to the connection. Everything is logged and counted.
func (b *Bus) events() []nats.Option {
	return []nats.Option{
		nats.ConnectHandler(b.connected),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			b.reconnects.Add(1)
			b.log().Info("relay/nats: connected again", "server", nc.ConnectedAddr())
			b.connected(nc)
		}),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			b.disconnected(err)
			if !b.closed.Load() {
				b.disconnects.Add(1)
				b.log().Warn("relay/nats: disconnected", "err", err)
			}
			b.connected(nc)
		}),
		nats.ReconnectErrHandler(func(nc *nats.Conn, err error) {
			b.noisy.report(b, "relay/nats: cannot connect", err)
			b.connected(nc)
		}),
		nats.ErrorHandler(func(nc *nats.Conn, _ *nats.Subscription, err error) {
			b.connected(nc)
			b.errors.Add(1)
			b.noisy.report(b, "relay/nats: an error of the connection", err)
			b.refuse(err)
		}),
		nats.ClosedHandler(func(nc *nats.Conn) {
			b.connected(nc)
			if !b.closed.Load() { // the client has given up, so that subscriptions would wait for ever
				b.log().Error("relay/nats: the client has closed the connection, and the bus closes", "err", nc.LastError())
				go b.Close()
			}
		}),
	}
}

func (b *Bus) log() *slog.Logger { return cmp.Or(b.o.ErrorLog, slog.Default()) }

// noisy limits the log of errors that may come with every message, or every attempt to connect.
type noisy struct {
	mu     sync.Mutex
	at     map[string]time.Time // of the last entry, by what is logged; guarded by mu
	silent int                  // errors that were not logged since; guarded by mu
}

const noisyPause = 10 * time.Second

func (n *noisy) report(b *Bus, what string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if n.at == nil {
		n.at = map[string]time.Time{}
	}
	if last, logged := n.at[what]; logged && now.Sub(last) < noisyPause {
		n.silent++
		return
	}
	b.log().Warn(what, "err", err, "not_logged", n.silent)
	n.at[what], n.silent = now, 0
}

// refuse ends the subscriptions and listeners that the server has refused.
func (b *Bus) refuse(err error) {
	b.mu.Lock()
	var refused []closer
	for s := range b.subs {
		if isRefusal(err, s.pattern()) {
			refused = append(refused, s)
		}
	}
	b.mu.Unlock()
	for _, s := range refused {
		s.refuse(denied(err))
	}
}

// isRefusal reports whether an error says that a subscription is not permitted.
func isRefusal(err error, pattern string) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), fmt.Sprintf("Subscription to %q", pattern))
}

func denied(err error) error { return fmt.Errorf("%w: %w", ErrDenied, err) }
