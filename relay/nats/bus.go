package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/relay"
)

// Bus is a relay.Bus on a connection to NATS. Make one with Connect. Any goroutine may use
// it.
type Bus struct {
	o  Options
	nc *nats.Conn
	js jetstream.JetStream

	up       atomic.Bool // connected now, and streamed; set under mu
	closed   atomic.Bool
	stopping chan struct{} // closed by Close
	largest  atomic.Int64  // message that the server takes

	// The client of NATS may block while it writes to the connection. Envelopes of tasks
	// are handed to a goroutine where that would block their loop.
	// Most need not be: see conn.
	outbox   *cosync.Inbox[*nats.Msg] // nil is no message
	handing  atomic.Int64             // messages in the outbox, and the one that send has taken
	conn     atomic.Pointer[conn]     // the latest; nil if the program dials itself
	overflow overflow

	mu    sync.Mutex
	subs  map[closer]struct{} // guarded by mu, as all below
	ended bool                // Close waits for work, and there is no more
	work  sync.WaitGroup      // goroutines

	streamed    bool  // the streams of durable subjects are there
	notStreamed error // why they are not
	linked      bool  // there is a connection
	lastError   error // of the client

	noting sync.Mutex // held by connected

	published, dropped, dead, reconnects, disconnects, errors atomic.Uint64
	noisy                                                     noisy
}

// closer is a listener or a subscription.
type closer interface {
	Close() error
	countDrops() // adds what the client of NATS has dropped to the counts of the bus

	pattern() string  // of the subscription of the client; "" if there is none
	refuse(err error) // the server does not permit the subscription
}

// Options configures a Bus.
type Options struct {
	// Name is the name of the connection in the server's reports. "" means "spindle".
	Name string

	// Queue is how many requests wait in a subscription. Zero means 1,024.
	Queue int

	// Outbox is how many envelopes of tasks wait to be sent, beside cancellations. Zero
	// means 1,024.
	Outbox int

	// WaitForServer makes Connect succeed when no server can be reached. The bus then
	// fails with relay.ErrDown until one can, and has the streams of durable subjects.
	WaitForServer bool

	// Durable subjects have their requests kept by JetStream.
	Durable []Durable

	// Service, if it has a name, makes the bus answer tools for services of NATS: which subjects
	// its workers serve, and with which counts.
	Service Service

	// ErrorLog gets disconnections, errors of the connection such as violations of
	// permissions, durable requests that are given up, and consumers of durable subjects that
	// were deleted and are made again. Nil means slog.Default().
	ErrorLog *slog.Logger

	// NATS are options of the client: TLS, credentials, time-outs. A Bus sets the handlers
	// of connection events itself.
	NATS []nats.Option
}

// Stats are counts of a Bus since it was made.
type Stats struct {
	Published  uint64 // envelopes accepted
	Dropped    uint64 // accepted or received, and then lost: no connection, a full queue, not an envelope
	Dead       uint64 // durable requests given up after Durable.Attempts
	Reconnects uint64

	Disconnects uint64
	Errors      uint64 // of the connection: violations of permissions, refused credentials, full channels

	Outbox int // envelopes that wait to be sent
}

// ErrDenied is the error of Connect when a server does not accept the credentials, and of
// Listen and Subscribe when the permissions do not allow the subject. Trying again does not
// help.
var ErrDenied = errors.New("the server does not allow it")

// Connect connects to servers: a URL, or several with commas between them. In a task it
// parks the task. It fails with an error that wraps relay.ErrDown if no server can be
// reached, and with one that wraps ErrDenied if the server does not accept the credentials.
func Connect(ctx context.Context, servers string, o Options) (*Bus, error) {
	if o.Queue < 0 || o.Outbox < 0 {
		panic("relay/nats: Connect with a negative limit")
	}
	if o.Name == "" {
		o.Name = "spindle"
	}
	if o.Queue == 0 {
		o.Queue = 1024
	}
	if o.Outbox == 0 {
		o.Outbox = 1024
	}
	o.Durable = slices.Clone(o.Durable)
	for i := range o.Durable {
		o.Durable[i].setDefaults()
	}
	b := &Bus{o: o, outbox: cosync.NewInbox[*nats.Msg](o.Outbox), subs: map[closer]struct{}{}, stopping: make(chan struct{})}
	err := blocking(ctx, func() error { return b.connect(ctx, servers) })
	if err != nil {
		err = cmp.Or(ended(ctx), err)
		if b.nc != nil {
			b.nc.Close()
		}
		return nil, err
	}
	if err := b.describe(); err != nil {
		b.nc.Close()
		return nil, err
	}
	b.background(b.send)
	if !b.streamed {
		b.background(b.createStreamsLater)
	}
	for _, d := range b.o.Durable {
		for subject, every := range d.Every {
			b.background(func() { b.publishEvery(subject, every) })
		}
	}
	return b, nil
}

func (b *Bus) connect(ctx context.Context, servers string) (err error) {
	options := append([]nats.Option{
		nats.Name(b.o.Name),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(reconnectDelay),
		nats.RetryOnFailedConnect(b.o.WaitForServer),
		nats.IgnoreAuthErrorAbort(), // credentials may be accepted later, as with any other failure
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(maxPings),
	}, b.o.NATS...)
	options = append(options, b.events()...)
	options = append(options,
		nats.ReconnectBufSize(-1),    // a bus that is down says so
		nats.SkipSubjectValidation(), // ours is stricter
		b.dialing(),
	)
	if b.nc, err = nats.Connect(servers, options...); err != nil {
		why := relay.ErrDown
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) {
			why = ErrDenied
		}
		var malformed *url.Error
		if errors.As(err, &malformed) {
			err = malformed.Err // without the URL, which may have a password
		}
		return fmt.Errorf("relay/nats: connecting to %s: %w: %w", Redacted(servers), why, err)
	}
	if b.js, err = jetstream.New(b.nc); err != nil {
		return fmt.Errorf("relay/nats: %w", err)
	}
	if b.nc.IsConnected() || len(b.o.Durable) == 0 {
		err = b.createStreams(ctx)
		b.hasStreams(err)
	} else {
		b.connected(b.nc)
	}
	if b.o.WaitForServer && errors.Is(err, relay.ErrDown) {
		return nil
	}
	return err
}

// reconnectDelay returns how long to wait after all servers have been tried, for the nth
// time: from 50 ms up to 5 s, and up to half of it by chance less, so that clients do not
// come all at once.
func reconnectDelay(n int) time.Duration {
	d := min(50*time.Millisecond<<min(max(n-1, 0), 10), 5*time.Second)
	return d - rand.N(d/2)
}

// Redacted returns the URLs of servers without names, passwords and tokens, for messages. It
// also does so with URLs that are not well-formed.
func Redacted(servers string) string {
	all := strings.Split(servers, ",")
	for i, s := range all {
		if at := strings.LastIndexByte(s, '@'); at >= 0 {
			scheme, _, found := strings.Cut(s[:at], "://")
			if found {
				scheme += "://"
			} else {
				scheme = ""
			}
			all[i] = scheme + "xxxxx" + s[at:]
		}
	}
	return strings.Join(all, ",")
}

// connected notes whether there is a connection. It may block for seconds, because the client holds
// its mutex while it connects. So nothing that tasks call asks the client then, or waits for noting.
func (b *Bus) connected(nc *nats.Conn) {
	b.noting.Lock() // what is noted last was asked last
	defer b.noting.Unlock()
	c := b.conn.Load() // before the client is asked, which waits while it connects by another one
	largest, linked, err := nc.MaxPayload(), nc.IsConnected(), nc.LastError()
	if largest > 0 {
		b.largest.Store(largest)
	}
	if linked && c != nil {
		c.joined.Store(true)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.linked, b.lastError = linked, err
	b.up.Store(b.streamed && linked)
}

// disconnected notes that there is no connection, without asking the client, which may be
// connecting again.
func (b *Bus) disconnected(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.linked, b.lastError = false, err
	b.up.Store(false)
}

// hasStreams notes that the streams of durable subjects are there, or why they are not.
func (b *Bus) hasStreams(err error) {
	b.mu.Lock()
	b.streamed, b.notStreamed = err == nil, err
	b.mu.Unlock()
	b.connected(b.nc)
}

// blocking calls fn, which blocks, without blocking the loop of a task.
func blocking(ctx context.Context, fn func() error) error {
	if spindle.Current(ctx) == nil {
		return fn()
	}
	_, err := spindle.Blocking(ctx, func() (struct{}, error) { return struct{}{}, fn() })
	return err
}

// Ready returns nil if the bus is connected.
func (b *Bus) Ready() error {
	switch {
	case b.closed.Load():
		return relay.ErrClosed
	case !b.up.Load():
		return b.whyDown()
	}
	return nil
}

func (b *Bus) whyDown() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.linked && b.notStreamed != nil:
		return fmt.Errorf("%w: %w", relay.ErrDown, b.notStreamed)
	case !b.linked && b.lastError != nil:
		return fmt.Errorf("%w: %w", relay.ErrDown, b.lastError)
	}
	return relay.ErrDown
}

// Close ends all subscriptions, sends what waits in the outbox, and closes the connection.
// It blocks until the server has answered, for some seconds at most. If the server does not
// answer, Close fails: some of what was published may be lost.
func (b *Bus) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	b.mu.Lock()
	var subs []closer
	for s := range b.subs {
		subs = append(subs, s)
	}
	b.mu.Unlock()
	for _, s := range subs {
		s.Close()
	}
	close(b.stopping)
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.outbox.Close()
	b.work.Wait()
	defer b.nc.Close()
	if !b.up.Load() {
		return nil // what the outbox had was counted as dropped
	}
	if err := b.nc.FlushTimeout(5 * time.Second); err != nil {
		return fmt.Errorf("relay/nats: Close: the server may not have all that was published: %w", err)
	}
	return nil
}

// background runs fn, which may block, on a goroutine that Close waits for. After Close
// nothing runs.
func (b *Bus) background(fn func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.work.Go(fn)
	}
}

// Stats returns the counts of the bus.
func (b *Bus) Stats() Stats {
	b.mu.Lock()
	for s := range b.subs {
		s.countDrops()
	}
	b.mu.Unlock()
	return Stats{
		Published: b.published.Load(), Dropped: b.dropped.Load(), Dead: b.dead.Load(),
		Reconnects: b.reconnects.Load(), Disconnects: b.disconnects.Load(), Errors: b.errors.Load(), Outbox: b.outbox.Statistics().Used + b.overflow.len(),
	}
}

// keep registers a subscription that ends with the bus. It reports false if the bus is
// closed.
func (b *Bus) keep(s closer) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() { // Close has taken its list, or will do so without s
		return false
	}
	b.subs[s] = struct{}{}
	return true
}

func (b *Bus) forget(s closer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.subs, s)
}
