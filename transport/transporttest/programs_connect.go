package transporttest

import (
	"strconv"
	"time"

	"github.com/spindleloop/spindle/transport"
)

// connects are programs about how connections come to be, and several of them.
var connects = []program{
	{"OwnBuffer", func(w *world) {
		s := echoes
		s.buffer = 1000
		if w.listen(transport.Options{}, s) {
			w.connect(transport.ConnectOptions{}, sends(20_000))
		}
	}},
	{"ProtocolSwitch", func(w *world) {
		if w.listen(transport.Options{}, script{data: func(e *end, n int) {
			next := *e // a new protocol, that has seen what the old one has
			next.script = echoes
			next.name += " switched"
			e.moved = &next
			e.call("SetProtocol", func() { e.c.SetProtocol(&next) })
			next.write(n)
		}}) {
			w.connect(transport.ConnectOptions{}, script{
				made: func(e *end) { e.write(large) },
				data: func(e *end, n int) {
					if e.got == large {
						e.close()
					}
				},
			})
		}
	}},
	{"TwoGatheredInTurns", func(w *world) {
		// Writes of several connections are mixed in what is gathered; each is
		// closed behind its last.
		var both []*end
		if w.listen(transport.Options{}, script{made: func(e *end) {
			if both = append(both, e); len(both) < 2 {
				return
			}
			for range 3 {
				for _, e := range both {
					if !e.c.IsClosing() {
						e.write(10)
					}
				}
			}
			both[0].close()
			both[1].writeEOF()
		}}) {
			w.connect(transport.ConnectOptions{}, impatient)
			w.connect(transport.ConnectOptions{}, impatient)
		}
	}},
	{"LimitOfConnections", func(w *world) {
		if w.listen(transport.Options{MaxConns: 2}, script{
			data: func(e *end, n int) {
				if w.server.Conns() > 2 {
					w.complain("%d connections at once", w.server.Conns())
				}
				e.write(n)
			},
		}) {
			for range 5 {
				w.connect(transport.ConnectOptions{}, sends(10))
			}
		}
	}},
	{"ManyAtOnce", func(w *world) {
		if w.listen(transport.Options{}, echoes) {
			for range 20 {
				w.connect(transport.ConnectOptions{Delay: true}, sends(10))
			}
		}
	}},
	{"IdleTimeout", func(w *world) {
		if w.listen(transport.Options{}, script{
			made: func(e *end) {
				e.call("SetIdleTimeout", func() { e.c.SetIdleTimeout(time.Second) })
			},
		}) {
			w.connect(transport.ConnectOptions{}, script{made: func(e *end) {
				w.later(50*turnTime, func() { e.write(10) })
				w.later(120*turnTime, func() { e.write(10) })
			}})
		}
	}},
	{"ConnectRefused", func(w *world) {
		w.mayFail = true
		if w.listen(transport.Options{}, echoes) {
			address := w.address
			w.server.Close()
			if w.address = address + "-nobody"; w.network == "tcp" {
				w.address = address
			}
			w.connect(transport.ConnectOptions{}, script{})
		}
	}},
	{"ConnectTimeout", func(w *world) {
		w.mayFail = true
		if w.listen(transport.Options{}, echoes) && w.network == "tcp" {
			w.address = nowhere.String() + ":9"
			w.connect(transport.ConnectOptions{Timeout: time.Second}, script{})
		}
	}},
	{"HappyEyeballs", func(w *world) {
		if w.listen(transport.Options{}, echoes) && w.network == "tcp" {
			w.address = "somewhere.example:" + strconv.Itoa(port(w.server))
			w.connect(transport.ConnectOptions{Timeout: time.Minute}, sends(10))
		}
	}},
	{"ServerClosedInConnectionMade", func(w *world) {
		w.mayFail = true
		if w.listen(transport.Options{}, script{made: func(e *end) {
			w.server.Close()
			w.later(10*turnTime, e.close) // whoever was in the backlog is gone by then
		}}) {
			for range 3 {
				w.connect(transport.ConnectOptions{}, impatient)
			}
		}
	}},
}

// impatient waits for the end, but not for ever: a peer may never be accepted.
var impatient = script{made: func(e *end) {
	e.call("SetIdleTimeout", func() { e.c.SetIdleTimeout(5 * time.Second) })
}}
