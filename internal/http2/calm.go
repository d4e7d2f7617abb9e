package http2

import "time"

// calm limits frames that make work and no progress: PING, SETTINGS, PRIORITY, empty DATA,
// small WINDOW_UPDATEs, and streams that are begun and reset. It is a bucket of tokens that
// fills with time, and with what is really sent and received, so a busy peer never meets its
// end. WINDOW_UPDATEs that return what the peer was sent cost nothing: Go's client sends two for
// each 4 KB that its user reads.
//
// A peer that spends many of them at once is also slowed down, by the event Hasty. Otherwise it could
// spend all of them, connect again, and keep a loop busy.
type calm struct {
	tokens int32
	quick  int32         // of tokens, those that may be spent before a pause
	since  time.Duration // when tokens were added last
	unread int64         // bytes that were sent and not returned, on streams and on the connection
}

const (
	calmBurst = 10_000                // tokens of a new connection, and at most
	calmEvery = 2 * time.Millisecond  // time for one more token
	resetCost = 10                    // of a stream that is reset
	calmWhole = calmBurst * calmEvery // time that fills the bucket
	calmQuick = 256                   // tokens between two pauses
	smallest  = 1 << 10               // bytes of a WINDOW_UPDATE that may cost nothing
)

func (b *calm) init() { b.tokens, b.quick = calmBurst, calmQuick }

// HastyPause is how long a server waits after the event Hasty.
const HastyPause = 4 * time.Millisecond

// spend takes n tokens. It fails if there are none left.
func (c *Conn) spend(n int) error {
	b := &c.calm
	b.quick -= int32(n)
	if b.tokens -= int32(n); b.tokens > 0 {
		return nil
	}
	passed := min(c.Now-b.since, calmWhole)
	b.since = c.Now
	if b.tokens = min(b.tokens+int32(passed/calmEvery), calmBurst); b.tokens > 0 {
		return nil
	}
	return ErrFlood
}

// spendOnWindow takes a token for a WINDOW_UPDATE of n bytes, unless it returns what was sent.
func (c *Conn) spendOnWindow(n int64) error {
	if n >= smallest && n <= c.calm.unread {
		c.calm.unread -= n
		return nil
	}
	return c.spend(1)
}

// costOfReset returns what a reset of the peer costs. Only a server begins work for the peer
// that a reset throws away.
func (c *Conn) costOfReset() int {
	if c.sh.config.Role == Client {
		return 1
	}
	return resetCost
}

// earn adds n tokens.
func (c *Conn) earn(n int32) {
	b := &c.calm
	b.tokens = min(b.tokens+n, calmBurst)
	b.quick = min(b.quick+n, calmQuick)
}
