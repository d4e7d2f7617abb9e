package transporttest

import (
	"time"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// program is a small world: servers and clients that come to an end by themselves.
type program struct {
	name string
	play func(w *world)
}

// echoes sends back what comes, and heeds the water marks.
var echoes = script{
	data:   func(e *end, n int) { e.write(n) },
	pause:  func(e *end) { e.call("PauseReading", func() { e.c.PauseReading() }) },
	resume: func(e *end) { e.call("ResumeReading", func() { e.c.ResumeReading() }) },
}

// sends writes n bytes, ends its side, and closes when so many came back.
func sends(n int) script {
	return script{
		made: func(e *end) {
			e.write(n)
			e.writeEOF()
		},
	}
}

// programs are all there are.
var programs = append(basics, connects...)

const large = 400 << 10 // more than any socket takes at once here

var basics = []program{
	{"Echo", func(w *world) {
		if w.listen(transport.Options{}, echoes) {
			w.connect(transport.ConnectOptions{}, sends(100))
		}
	}},
	{"EchoInTurns", func(w *world) {
		if w.listen(transport.Options{}, echoes) {
			w.connect(transport.ConnectOptions{}, script{
				made: func(e *end) { e.write(10) },
				data: func(e *end, n int) {
					switch {
					case e.got >= 50:
						e.close()
					case e.got == e.written:
						e.write(10)
					}
				},
			})
		}
	}},
	{"LargeEcho", func(w *world) {
		if w.listen(transport.Options{}, echoes) {
			w.connect(transport.ConnectOptions{}, sends(large))
		}
	}},
	{"LargeWriteThenClose", func(w *world) {
		if w.listen(transport.Options{}, script{made: func(e *end) {
			e.write(large)
			e.afterFlush()
			e.close()
			e.afterFlush()
		}}) {
			w.connect(transport.ConnectOptions{}, script{})
		}
	}},
	{"SlowReader", func(w *world) {
		if w.listen(transport.Options{}, writesWhileItMay(large, 30<<10)) {
			w.connect(transport.ConnectOptions{}, script{
				data: func(e *end, n int) { e.pauseFor(1) },
			})
		}
	}},
	{"SmallMarks", func(w *world) {
		s := writesWhileItMay(large, 5000)
		write := s.made
		s.made = func(e *end) {
			e.call("SetWriteLimits", func() { e.c.SetWriteLimits(20_000, 0) })
			write(e)
		}
		if w.listen(transport.Options{}, s) {
			w.connect(transport.ConnectOptions{}, script{data: func(e *end, n int) { e.pauseFor(1) }})
		}
	}},
	{"ManyBuffers", func(w *world) {
		if w.listen(transport.Options{}, script{made: func(e *end) {
			e.write(3) // gathered, and so sent before the others
			e.writev(1, 0, 70_000, 5000, 1)
			e.writev(1, 2, 3)
			e.writev(10_000, 300_000, 0, 20)
			e.afterFlush()
			sizes := make([]int, 3000)
			for i := range sizes {
				sizes[i] = 2
			}
			e.writev(sizes...)
			e.close()
		}}) {
			w.connect(transport.ConnectOptions{}, script{data: func(e *end, n int) { e.pauseFor(1) }})
		}
	}},
	{"MoreBuffersThanTheSystemTakes", func(w *world) {
		if w.listen(transport.Options{}, script{made: func(e *end) {
			sizes := make([]int, 2100)
			for i := range sizes {
				sizes[i] = 3
			}
			e.writev(sizes...)
			e.writeEOF()
		}}) {
			w.connect(transport.ConnectOptions{}, script{})
		}
	}},
	{"HalfClose", func(w *world) {
		if w.listen(transport.Options{}, script{
			eof: func(e *end) bool {
				// It goes on writing for a while, to a peer that only reads.
				w.later(1*turnTime, func() { e.write(1000) })
				w.later(2*turnTime, func() { e.write(50_000) })
				w.later(3*turnTime, func() { e.close() })
				return true
			},
		}) {
			w.connect(transport.ConnectOptions{}, sends(10))
		}
	}},
	{"HalfOpenForLong", func(w *world) {
		if w.listen(transport.Options{}, script{eof: func(e *end) bool {
			w.later(time.Minute, e.close)
			return true
		}}) {
			w.connect(transport.ConnectOptions{}, sends(10))
		}
	}},
	{"PausedForLong", func(w *world) {
		if w.listen(transport.Options{}, script{made: func(e *end) { e.pauseFor(6000) }}) {
			w.connect(transport.ConnectOptions{}, sends(200<<10))
		}
	}},
	{"CloseInConnectionMade", func(w *world) {
		if w.listen(transport.Options{}, script{made: (*end).close}) {
			w.connect(transport.ConnectOptions{}, sends(10))
			w.connect(transport.ConnectOptions{}, script{made: (*end).close})
			w.connect(transport.ConnectOptions{}, script{made: (*end).abort})
		}
	}},
	{"WriteAndCloseInConnectionMade", func(w *world) {
		if w.listen(transport.Options{}, script{made: func(e *end) {
			e.write(20)
			e.close()
		}}) {
			w.connect(transport.ConnectOptions{}, script{})
		}
	}},
	{"CloseInDataReceived", func(w *world) {
		if w.listen(transport.Options{}, script{data: func(e *end, n int) {
			e.write(5)
			e.close()
		}}) {
			w.connect(transport.ConnectOptions{}, sends(10))
		}
	}},
	{"CloseInEOFReceived", func(w *world) {
		if w.listen(transport.Options{}, script{eof: func(e *end) bool {
			e.write(70_000)
			e.close()
			return true
		}}) {
			w.connect(transport.ConnectOptions{}, sends(10))
		}
	}},
	{"AbortWithUnsentData", func(w *world) {
		if w.listen(transport.Options{}, script{made: func(e *end) {
			e.write(10)
			e.write(large)
			e.afterFlush()
			w.later(1*turnTime, e.abort)
		}}) {
			w.connect(transport.ConnectOptions{}, script{made: func(e *end) { e.pauseFor(2) }})
		}
	}},
	{"AbortAtOnce", func(w *world) {
		if w.listen(transport.Options{}, script{made: func(e *end) {
			e.write(10)
			e.afterFlush()
			e.abort()
			e.afterFlush()
		}}) {
			w.connect(transport.ConnectOptions{}, script{})
		}
	}},
}

// writesWhileItMay writes n bytes in blocks, and heeds the water marks.
func writesWhileItMay(n, block int) script {
	var more func(e *end)
	more = func(e *end) {
		for e.written < n && !e.wasPaused {
			if !e.write(block) {
				return
			}
			if e.c.Unsent() > 0 {
				break // a pause may be on its way
			}
		}
		if e.written >= n {
			e.writeEOF()
			return
		}
		if !e.wasPaused && e.losses == 0 {
			e.w.l.CallSoonWith(loop.DropAtClose, func() { more(e) })
		}
	}
	return script{made: more, resume: func(e *end) { more(e) }}
}
