package kernel

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"
)

// system is the part of the real kernel that the standard library provides on
// every platform.
type system struct {
	base time.Time // carries the monotonic reading that Mono counts from
}

func newSystem() system { return system{base: time.Now()} }

// Mono uses time.Since because, with a monotonic base, it reads one clock.
// time.Now reads two and costs twice as much.
func (s system) Mono() time.Duration { return time.Since(s.base) }

func (system) Wall() time.Time { return time.Now() }

// At returns a time with a monotonic reading, so that setting the system clock does
// not affect time.Until.
func (s system) At(mono time.Duration) time.Time { return s.base.Add(mono) }

// Uint64 uses the runtime's ChaCha8 generator, which the system seeds.
func (system) Uint64() uint64 { return rand.Uint64() }

func (system) AfterFunc(ctx context.Context, f func()) (stop func() bool) {
	return context.AfterFunc(ctx, f)
}

func (system) Start(work func()) { go work() }

func (system) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, network, host)
}
