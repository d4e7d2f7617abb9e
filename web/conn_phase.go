package web

// A connection has three states that change independently: how far its life is
// (connPhase), what the next received bytes are (inputPhase), and whether the peer takes
// what is sent (outputPhase). The rest are marks, which are facts of their own.

// connPhase is how far the life of a connection is.
//
//	open ──close──▶ lingering ──EOF or time-out──▶ closing ──▶ lost
//	 │ │                                             ▲           ▲
//	 │ └───────────────────hangUp────────────────────┘           │
//	 └──Hijack, Upgrade──▶ switched ─────────────────────────────┘
//
// Every phase can end in lost.
type connPhase uint8

const (
	connOpen      connPhase = iota // serves requests
	connLingering                  // sent its last response and an EOF; drops what is received
	connClosing                    // closes once everything was sent
	connSwitched                   // belongs to another protocol, or will at the end of the turn
	connLost                       // the transport's connection has ended
)

// connNext has the phases that can follow each phase, as bits.
var connNext = [...]uint8{
	connOpen:      1<<connLingering | 1<<connClosing | 1<<connSwitched | 1<<connLost,
	connLingering: 1<<connClosing | 1<<connLost,
	connClosing:   1<<connClosing | 1<<connLost,
	connSwitched:  1 << connLost,
	connLost:      0,
}

// enter changes the phase. It panics if that is a change that cannot happen.
func (c *conn) enter(next connPhase) {
	if connNext[c.phase]&(1<<next) == 0 {
		panic("web: internal error: a connection cannot change its phase like this")
	}
	c.phase = next
}

// inputPhase is what the next received bytes are.
//
//	            ┌───────────End────────────┐
//	            ▼                          │
//	┌─▶ head ──Head──▶ body ──answered──▶ skip
//	│   │ │             │                  ▲
//	│   │ │            End                 │
//	│   │ │             ▼                  │
//	│   │ │            hold ──answered──▶ head
//	│   │ │                                │
//	│   │ ├──lean answer───────────────────┘
//	│   │ ├──lean answer that says close──▶ skipLast ──End──▶ (the connection closes)
//	│   │ └──LeanCtx.ReadBody──▶ collect ──End──▶ head
//	│   └──128 requests at once──▶ yield
//	└──────────next turn─────────────┘
//
// A plain connection that may be one of HTTP/2 begins with preface, and one that is has
// frames as its input to the end. Its streams are drawn in package http2.
//
//	preface ──▶ head    head, preface ──▶ frames
//
// Two more phases end the connection with the answer under way: a body that cannot be
// parsed, is late or ends early is broken; and a request that has come as a whole turns
// from hold to holdLast when its read deadline passes.
//
// A connection has an exchange exactly while its input is body, hold, holdLast or broken.
type inputPhase uint8

const (
	inputHead     inputPhase = iota // a request's head
	inputBody                       // the body of the exchange's request
	inputHold                       // the next request; kept until the exchange is answered
	inputHoldLast                   // of no interest: the connection closes after the answer
	inputBroken                     // like inputHoldLast, but the request has not come as a whole
	inputCollect                    // a body that a lean handler waits for
	inputSkip                       // the rest of a body; its request was answered
	inputSkipLast                   // like inputSkip; the connection closes after it
	inputYield                      // the next request; kept until other connections had a turn
	inputPreface                    // the preface of HTTP/2, or a request's head
	inputFrames                     // frames of HTTP/2
)

// inputNext has the phases that can follow each phase, as bits.
var inputNext = [...]uint16{
	inputHead:     1<<inputBody | 1<<inputCollect | 1<<inputSkip | 1<<inputSkipLast | 1<<inputYield | 1<<inputPreface | 1<<inputFrames,
	inputBody:     1<<inputHold | 1<<inputSkip | 1<<inputBroken,
	inputHold:     1<<inputHead | 1<<inputHoldLast,
	inputHoldLast: 0,
	inputBroken:   0,
	inputCollect:  1 << inputHead,
	inputSkip:     1 << inputHead,
	inputSkipLast: 0,
	inputYield:    1 << inputHead,
	inputPreface:  1<<inputHead | 1<<inputFrames,
	inputFrames:   0,
}

// expect changes what the next bytes are. It panics if that is a change that cannot
// happen.
func (c *conn) expect(next inputPhase) {
	if inputNext[c.input]&(1<<next) == 0 {
		panic("web: internal error: a connection cannot change its input like this")
	}
	c.input = next
}

// hasExchange has the phases in which the connection has an exchange, as bits.
const hasExchange uint16 = 1<<inputBody | 1<<inputHold | 1<<inputHoldLast | 1<<inputBroken

// consistent reports whether the connection has an exchange exactly if its input says so.
// It is true between two callbacks; the tests of this package set checkPhases to verify that.
func (c *conn) consistent() bool { return c.answering() == (hasExchange&(1<<c.input) != 0) }

var checkPhases = false

// outputPhase is whether the peer takes what is sent.
//
//	free ──hold──▶ held ──release──▶ timed ──hold──▶ held
//	 └──────────time-out set──────────▲
type outputPhase uint8

const (
	outputFree  outputPhase = iota // no write time-out is set
	outputTimed                    // the transport has a write time-out
	outputHeld                     // too much is unsent: handlers wait, and lean requests are not read
)

// connMarks are facts about a connection that do not depend on its phases.
type connMarks uint8

const (
	parsing     connMarks = 1 << iota // consume is on the stack
	peerEOF                           // the peer has closed its sending side
	readsPaused                       // the transport does not read
	drainSeen                         // the server drains; for a protocol that takes the connection over
)

func (c *conn) is(m connMarks) bool { return c.marks&m != 0 }
