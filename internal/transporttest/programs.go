package transporttest

import (
	"time"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/transport"
)

// program is a server and clients that finish by themselves.
type program struct {
	name  string
	start func(r *run)
}

// echoScript sends back what it receives, and pauses reading while writing is paused.
var echoScript = script{
	data:   func(p *peer, n int) { p.write(n) },
	pause:  func(p *peer) { p.call("PauseReading", func() { p.c.PauseReading() }) },
	resume: func(p *peer) { p.call("ResumeReading", func() { p.c.ResumeReading() }) },
}

// sendScript writes n bytes and EOF, and then reads until the peer closes.
func sendScript(n int) script {
	return script{
		made: func(p *peer) {
			p.write(n)
			p.writeEOF()
		},
	}
}

// programs are all programs.
var programs = append(basicPrograms, connectPrograms...)

const largeSize = 400 << 10 // more than any socket takes at once in these programs

var basicPrograms = []program{
	{"Echo", func(r *run) {
		if r.listen(transport.Options{}, echoScript) {
			r.connect(transport.ConnectOptions{}, sendScript(100))
		}
	}},
	{"EchoInRounds", func(r *run) {
		if r.listen(transport.Options{}, echoScript) {
			r.connect(transport.ConnectOptions{}, script{
				made: func(p *peer) { p.write(10) },
				data: func(p *peer, n int) {
					switch {
					case p.received >= 50:
						p.close()
					case p.received == p.written:
						p.write(10)
					}
				},
			})
		}
	}},
	{"LargeEcho", func(r *run) {
		if r.listen(transport.Options{}, echoScript) {
			r.connect(transport.ConnectOptions{}, sendScript(largeSize))
		}
	}},
	{"LargeWriteThenClose", func(r *run) {
		if r.listen(transport.Options{}, script{made: func(p *peer) {
			p.write(largeSize)
			p.afterFlush()
			p.close()
			p.afterFlush()
		}}) {
			r.connect(transport.ConnectOptions{}, script{})
		}
	}},
	{"SlowReader", func(r *run) {
		if r.listen(transport.Options{}, pumpScript(largeSize, 30<<10)) {
			r.connect(transport.ConnectOptions{}, script{
				data: func(p *peer, n int) { p.pauseFor(1) },
			})
		}
	}},
	{"SmallMarks", func(r *run) {
		s := pumpScript(largeSize, 5000)
		write := s.made
		s.made = func(p *peer) {
			p.call("SetWriteLimits", func() { p.c.SetWriteLimits(20_000, 0) })
			write(p)
		}
		if r.listen(transport.Options{}, s) {
			r.connect(transport.ConnectOptions{}, script{data: func(p *peer, n int) { p.pauseFor(1) }})
		}
	}},
	{"ManyBuffers", func(r *run) {
		if r.listen(transport.Options{}, script{made: func(p *peer) {
			p.write(3) // gathered; must be sent before the others
			p.writev(1, 0, 70_000, 5000, 1)
			p.writev(1, 2, 3)
			p.writev(10_000, 300_000, 0, 20)
			p.afterFlush()
			sizes := make([]int, 3000)
			for i := range sizes {
				sizes[i] = 2
			}
			p.writev(sizes...)
			p.close()
		}}) {
			r.connect(transport.ConnectOptions{}, script{data: func(p *peer, n int) { p.pauseFor(1) }})
		}
	}},
	{"MoreBuffersThanTheSystemTakes", func(r *run) {
		if r.listen(transport.Options{}, script{made: func(p *peer) {
			sizes := make([]int, 2100)
			for i := range sizes {
				sizes[i] = 3
			}
			p.writev(sizes...)
			p.writeEOF()
		}}) {
			r.connect(transport.ConnectOptions{}, script{})
		}
	}},
	{"HalfClose", func(r *run) {
		if r.listen(transport.Options{}, script{
			eof: func(p *peer) bool {
				// Keeps writing for a while, to a peer that only reads.
				r.later(1*tick, func() { p.write(1000) })
				r.later(2*tick, func() { p.write(50_000) })
				r.later(3*tick, func() { p.close() })
				return true
			},
		}) {
			r.connect(transport.ConnectOptions{}, sendScript(10))
		}
	}},
	{"HalfOpenForLong", func(r *run) {
		if r.listen(transport.Options{}, script{eof: func(p *peer) bool {
			r.later(time.Minute, p.close)
			return true
		}}) {
			r.connect(transport.ConnectOptions{}, sendScript(10))
		}
	}},
	{"PausedForLong", func(r *run) {
		if r.listen(transport.Options{}, script{made: func(p *peer) { p.pauseFor(6000) }}) {
			r.connect(transport.ConnectOptions{}, sendScript(200<<10))
		}
	}},
	{"CloseInConnectionMade", func(r *run) {
		if r.listen(transport.Options{}, script{made: (*peer).close}) {
			r.connect(transport.ConnectOptions{}, sendScript(10))
			r.connect(transport.ConnectOptions{}, script{made: (*peer).close})
			r.connect(transport.ConnectOptions{}, script{made: (*peer).abort})
		}
	}},
	{"WriteAndCloseInConnectionMade", func(r *run) {
		if r.listen(transport.Options{}, script{made: func(p *peer) {
			p.write(20)
			p.close()
		}}) {
			r.connect(transport.ConnectOptions{}, script{})
		}
	}},
	{"CloseInDataReceived", func(r *run) {
		if r.listen(transport.Options{}, script{data: func(p *peer, n int) {
			p.write(5)
			p.close()
		}}) {
			r.connect(transport.ConnectOptions{}, sendScript(10))
		}
	}},
	{"CloseInEOFReceived", func(r *run) {
		if r.listen(transport.Options{}, script{eof: func(p *peer) bool {
			p.write(70_000)
			p.close()
			return true
		}}) {
			r.connect(transport.ConnectOptions{}, sendScript(10))
		}
	}},
	{"AbortWithUnsentData", func(r *run) {
		if r.listen(transport.Options{}, script{made: func(p *peer) {
			p.write(10)
			p.write(largeSize)
			p.afterFlush()
			r.later(1*tick, p.abort)
		}}) {
			r.connect(transport.ConnectOptions{}, script{made: func(p *peer) { p.pauseFor(2) }})
		}
	}},
	{"AbortAtOnce", func(r *run) {
		if r.listen(transport.Options{}, script{made: func(p *peer) {
			p.write(10)
			p.afterFlush()
			p.abort()
			p.afterFlush()
		}}) {
			r.connect(transport.ConnectOptions{}, script{})
		}
	}},
}

// pumpScript writes n bytes in blocks, and stops while writing is paused.
func pumpScript(n, block int) script {
	var more func(p *peer)
	more = func(p *peer) {
		for p.written < n && !p.wasPaused {
			if !p.write(block) {
				return
			}
			if p.c.Unsent() > 0 {
				break // PauseWriting may be queued
			}
		}
		if p.written >= n {
			p.writeEOF()
			return
		}
		if !p.wasPaused && p.losses == 0 {
			p.run.l.Internal().CallSoon(atclose.Drop, func() { more(p) })
		}
	}
	return script{made: more, resume: func(p *peer) { more(p) }}
}
