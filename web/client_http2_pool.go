package web

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/http2"
)

// h2Pool has the connections of HTTP/2 of a pool. Loop goroutine only.
type h2Pool struct {
	shared *http2.Shared
	sites  map[endpoint]*site
	spoke1 map[endpoint]struct{} // servers that have chosen HTTP/1.1
}

// site is an endpoint with connections of HTTP/2, or with a dial that may make one.
type site struct {
	conns []*h2Client // accept requests, or will when others have ended
	dial  *sharedDial
	free  spindle.Lot // of requests that wait for others to end
}

// sharedDial is a dial that several requests wait for.
type sharedDial struct {
	lot  spindle.Lot
	over bool
	err  error // for all that wait; nil if they try for themselves
}

// likely returns the version that connections to an endpoint probably speak.
func (p *pool) likely(to endpoint) version {
	if !p.c.may2(to) {
		return version1
	}
	if _, known := p.h2.spoke1[to]; known {
		return version1
	}
	return version2
}

// acquireShared is acquire for an endpoint that may speak HTTP/2. Of several requests to a
// server that is not known, one makes the connection, and the others wait for it.
func (p *pool) acquireShared(ctx context.Context, to endpoint, values context.Context) (*clientConn, *h2Client, error) {
	defer func() {
		if s := p.h2.sites[to]; s != nil {
			p.tidy(to, s)
		}
	}()
	for useless := 0; ; {
		s := p.site(to)
		if hc := s.available(); hc != nil {
			if s.available() != nil {
				s.free.Wake(1)
			}
			return nil, hc, nil
		}
		if cc, err := p.takeIdle(ctx, to); cc != nil || err != nil {
			return cc, nil, err
		}
		var err error
		switch _, known := p.h2.spoke1[to]; {
		case s != p.site(to) || s.available() != nil: // it has changed while takeIdle waited
		case known:
			return p.dial(ctx, to, values)
		case s.dial != nil:
			err = s.dial.wait(ctx)
		case len(s.conns) > 0 && p.c.HTTP2 != nil && p.c.HTTP2.StrictMaxConcurrentRequests:
			err = s.free.Wait(ctx, "a stream to "+to.address)
		default:
			cc, err := p.lead(ctx, to, values, s)
			if cc != nil || err != nil {
				return cc, nil, err
			}
			if p.site(to).available() == nil {
				p.leaveUseless(to)
				useless++
				if err := waitToRepeat(ctx, useless, errUseless); err != nil {
					return nil, nil, err
				}
			}
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

var errUseless = errors.New("web: the server ends new connections, or accepts no requests on them")

// leaveUseless closes connections that have no requests and accept none.
func (p *pool) leaveUseless(to endpoint) {
	for _, hc := range slices.Clone(p.site(to).conns) {
		if len(hc.fc.Streams()) == 0 && !hc.fc.CanRequest() {
			hc.leave()
		}
	}
}

// lead makes a connection that other requests may wait for. It returns one of HTTP/1.1 only
// to its caller.
func (p *pool) lead(ctx context.Context, to endpoint, values context.Context, s *site) (*clientConn, error) {
	d := &sharedDial{}
	s.dial = d
	defer func() { // however the dial ends
		s.dial, d.over = nil, true
		d.lot.Wake(1 << 30)
		p.tidy(to, s)
	}()
	cc, _, err := p.dial(ctx, to, values)
	if cc != nil {
		p.learnVersion1(to)
	}
	if canceled := (*spindle.Canceled)(nil); err != nil && !errors.As(err, &canceled) {
		d.err = err
	}
	return cc, err
}

func (d *sharedDial) wait(ctx context.Context) error {
	for !d.over {
		if err := d.lot.Wait(ctx, "a connection that another request makes"); err != nil {
			return err
		}
	}
	return d.err
}

// maxVersions is how many servers are known to have chosen HTTP/1.1.
const maxVersions = 1000

func (p *pool) learnVersion1(to endpoint) {
	if len(p.h2.spoke1) >= maxVersions || p.h2.spoke1 == nil {
		p.h2.spoke1 = make(map[endpoint]struct{})
	}
	p.h2.spoke1[to] = struct{}{}
}

// site returns the site of an endpoint.
func (p *pool) site(to endpoint) *site {
	s := p.h2.sites[to]
	if s == nil {
		if p.h2.sites == nil {
			p.h2.sites = make(map[endpoint]*site)
		}
		s = &site{}
		p.h2.sites[to] = s
	}
	return s
}

// tidy forgets a site that has nothing.
func (p *pool) tidy(to endpoint, s *site) {
	if len(s.conns) == 0 && s.dial == nil && s.free.Empty() && p.h2.sites[to] == s {
		delete(p.h2.sites, to)
	}
}

// available returns a connection that accepts a request now, nil if there is none.
func (s *site) available() *h2Client {
	for _, hc := range s.conns {
		if hc.fc.CanRequest() {
			return hc
		}
	}
	return nil
}

// add adds a connection to its site.
func (p *pool) addShared(hc *h2Client) {
	s := p.site(hc.to)
	s.conns = append(s.conns, hc)
	delete(p.h2.spoke1, hc.to)
}

// removeShared removes a connection that takes no more requests.
func (p *pool) removeShared(hc *h2Client) {
	hc.unsetIdle()
	s := p.h2.sites[hc.to]
	if s == nil {
		return
	}
	s.conns = slices.DeleteFunc(s.conns, func(o *h2Client) bool { return o == hc })
	s.free.Wake(1 << 30) // another connection is needed
	p.tidy(hc.to, s)
}

// closeIdleShared closes the connections of HTTP/2 that no request uses.
func (p *pool) closeIdleShared() {
	for _, to := range slices.SortedFunc(maps.Keys(p.h2.sites), endpoint.compare) {
		for _, hc := range slices.Clone(p.h2.sites[to].conns) {
			if len(hc.fc.Streams()) == 0 {
				hc.leave()
			}
		}
	}
}

// h2Shared returns what the connections of HTTP/2 share.
func (p *pool) h2Shared() *http2.Shared {
	if p.h2.shared == nil {
		o := http2.Config{
			Role: http2.Client, HeaderBytes: p.c.MaxHeaderBytes,
			StreamWindow: clientStreamWindow, ConnWindow: clientConnWindow,
		}
		if c := p.c.HTTP2; c != nil {
			o.MaxFrame, o.TableBytes = c.MaxReadFrameSize, c.MaxDecoderHeaderTableSize
			if c.MaxReceiveBufferPerStream > 0 {
				o.StreamWindow = c.MaxReceiveBufferPerStream
			}
			if c.MaxReceiveBufferPerConnection > 0 {
				o.ConnWindow = c.MaxReceiveBufferPerConnection
			}
		}
		p.h2.shared = http2.NewShared(o)
	}
	return p.h2.shared
}

// The windows of a client. A task that does not read its response must not stop the others on
// the connection, so only streams are limited.
const (
	clientStreamWindow = 1 << 20
	clientConnWindow   = 1 << 30
)

// maxRefusals limits how often a request is repeated that the server does not process.
const maxRefusals = 6

// waitToRepeat waits before a request is repeated: not the first time, then longer and longer,
// so that many clients do not press a server that refuses. It fails with why if there were too
// many refusals.
func waitToRepeat(ctx context.Context, refusals int, why error) error {
	switch {
	case refusals > maxRefusals:
		return why
	case refusals == 1:
		return nil
	}
	pause := time.Second << (refusals - 2)
	pause += time.Duration(float64(pause) * 0.1 * spindle.Rand(ctx).Float64())
	return spindle.Sleep(ctx, pause)
}
