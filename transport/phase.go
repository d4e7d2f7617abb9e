package transport

// phase is how far the life of a Conn or an Endpoint is. It only moves forward.
//
//	open ──WriteEOF──▶ shutting ──Close, EOF──▶ closing ──everything sent──▶ lost
//	  └────────────Close, EOF──────────────────▲
//
// From each of the first three, Abort leads to lost as well, and an error or the end of the
// loop to failed. An Endpoint has no shutting.
type phase uint8

const (
	phaseOpen     phase = iota
	phaseShutting       // the sending side closes when everything is sent
	phaseClosing        // receives no more; is lost when everything is sent
	phaseLost           // ConnectionLost was called or is queued
	phaseFailed         // like phaseLost, with an error
)

// closing reports whether nothing more is received.
func (p phase) closing() bool { return p >= phaseClosing }

// lost reports whether the connection has ended.
func (p phase) lost() bool { return p >= phaseLost }

// enter changes the phase. It panics if that is a step back.
func (p *phase) enter(next phase) {
	if next <= *p || p.lost() {
		panic("transport: internal error: a connection cannot change its phase like this")
	}
	*p = next
}

// lostPhase returns the phase of a connection that ends with err.
func lostPhase(err error) phase {
	if err != nil {
		return phaseFailed
	}
	return phaseLost
}

// writePhase is whether too much is unsent, and whether the protocol knows.
//
//	flowing ──above high──▶ pausing ──PauseWriting──▶ paused ──at low──▶ resuming
//	   ▲ ▲                     │                        ▲                 │   │
//	   │ └───────at low────────┘                        └───above high────┘   │
//	   └─────────────────────────────ResumeWriting────────────────────────────┘
//
// PauseWriting and ResumeWriting are queued, so a pause that ends before its callback
// runs is not reported. A protocol without the two methods stays in flowing and pausing.
type writePhase uint8

const (
	writeFlowing  writePhase = iota
	writePausing             // above the high water mark; PauseWriting was not called yet
	writePaused              // above the high water mark
	writeResuming            // below the low water mark; ResumeWriting was not called yet
)

// paused reports whether too much is unsent.
func (w writePhase) paused() bool { return w == writePausing || w == writePaused }

// reported reports whether the protocol knows the phase.
func (w writePhase) reported() bool { return w == writeFlowing || w == writePaused }

// connMarks are facts about a Conn that change independently of its phases and of one
// another. The handshake is one of them: StartTLS begins it on a
// connection that was announced, and Close and WriteEOF may come while it is under way.
type connMarks uint8

const (
	unannounced   connMarks = 1 << iota // ConnectionMade was not called yet
	handshaking                         // the TLS handshake is in progress
	pausedReading                       // PauseReading was called
	buffered                            // the protocol is a BufferedProtocol
	hasGathered                         // some bytes wait for the end of the turn
	readQueued                          // a callback that reads is queued
	pauserQueued                        // a callback that calls PauseWriting or ResumeWriting is queued
	fileMissing                         // SendFile has failed, and the program did not know when it last wrote or closed
)

func (c *Conn) is(m connMarks) bool { return c.marks&m != 0 }
