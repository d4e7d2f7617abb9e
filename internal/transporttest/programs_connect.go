package transporttest

import (
	"strconv"
	"time"

	"github.com/spindleloop/spindle/transport"
)

// connectPrograms are programs about making connections, and about several at once.
var connectPrograms = []program{
	{"OwnBuffer", func(r *run) {
		s := echoScript
		s.buffer = 1000
		if r.listen(transport.Options{}, s) {
			r.connect(transport.ConnectOptions{}, sendScript(20_000))
		}
	}},
	{"ProtocolSwitch", func(r *run) {
		if r.listen(transport.Options{}, script{data: func(p *peer, n int) {
			next := *p // a new protocol that continues the counts of the old one
			next.script = echoScript
			next.name += " switched"
			p.successor = &next
			p.call("SetProtocol", func() { p.c.SetProtocol(&next) })
			next.write(n)
		}}) {
			r.connect(transport.ConnectOptions{}, script{
				made: func(p *peer) { p.write(largeSize) },
				data: func(p *peer, n int) {
					if p.received == largeSize {
						p.close()
					}
				},
			})
		}
	}},
	{"GatheredWritesOfTwo", func(r *run) {
		// Gathered writes of two connections alternate; each connection must
		// close after its last write.
		var both []*peer
		if r.listen(transport.Options{}, script{made: func(p *peer) {
			if both = append(both, p); len(both) < 2 {
				return
			}
			for range 3 {
				for _, p := range both {
					if !p.c.IsClosing() {
						p.write(10)
					}
				}
			}
			both[0].close()
			both[1].writeEOF()
		}}) {
			r.connect(transport.ConnectOptions{}, timeoutScript)
			r.connect(transport.ConnectOptions{}, timeoutScript)
		}
	}},
	{"LimitOfConnections", func(r *run) {
		if r.listen(transport.Options{MaxConns: 2}, script{
			data: func(p *peer, n int) {
				if r.server.Conns() > 2 {
					r.problem("%d connections at once", r.server.Conns())
				}
				p.write(n)
			},
		}) {
			for range 5 {
				r.connect(transport.ConnectOptions{}, sendScript(10))
			}
		}
	}},
	{"ManyAtOnce", func(r *run) {
		if r.listen(transport.Options{}, echoScript) {
			for range 20 {
				r.connect(transport.ConnectOptions{Delay: true}, sendScript(10))
			}
		}
	}},
	{"IdleTimeout", func(r *run) {
		if r.listen(transport.Options{}, script{
			made: func(p *peer) {
				p.call("SetIdleTimeout", func() { p.c.SetIdleTimeout(time.Second) })
			},
		}) {
			r.connect(transport.ConnectOptions{}, script{made: func(p *peer) {
				r.later(50*tick, func() { p.write(10) })
				r.later(120*tick, func() { p.write(10) })
			}})
		}
	}},
	{"ConnectRefused", func(r *run) {
		r.mayFail = true
		if r.listen(transport.Options{}, echoScript) {
			address := r.address
			r.server.Close()
			if r.address = address + "-unused"; r.network == "tcp" {
				r.address = address
			}
			r.connect(transport.ConnectOptions{}, script{})
		}
	}},
	{"ConnectTimeout", func(r *run) {
		r.mayFail = true
		if r.listen(transport.Options{}, echoScript) && r.network == "tcp" {
			r.address = unreachable.String() + ":9"
			r.connect(transport.ConnectOptions{Timeout: time.Second}, script{})
		}
	}},
	{"HappyEyeballs", func(r *run) {
		if r.listen(transport.Options{}, echoScript) && r.network == "tcp" {
			r.address = "somewhere.example:" + strconv.Itoa(port(r.server))
			r.connect(transport.ConnectOptions{Timeout: time.Minute}, sendScript(10))
		}
	}},
	{"ServerClosedInConnectionMade", func(r *run) {
		r.mayFail = true
		if r.listen(transport.Options{}, script{made: func(p *peer) {
			r.server.Close()
			r.later(10*tick, p.close) // connections in the backlog are refused by then
		}}) {
			for range 3 {
				r.connect(transport.ConnectOptions{}, timeoutScript)
			}
		}
	}},
}

// timeoutScript waits for the end with a timeout, because it may never be accepted.
var timeoutScript = script{made: func(p *peer) {
	p.call("SetIdleTimeout", func() { p.c.SetIdleTimeout(5 * time.Second) })
}}
