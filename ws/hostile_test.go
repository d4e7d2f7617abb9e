package ws_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/ws"
)

// inUse is how much memory is.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// TestPingFloodIsCutOff: with a second of patience, and without keeping pongs.
func TestPingFloodIsCutOff(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			p := s.open(t, ws.Options{})
			before := allocated()
			p.flood(p.frame(fin|ping, strings.Repeat("x", 125)), 20_000) // 2.5 MB, and reads nothing
			p.endWriting()
			if err := p.end(); codeOf(err) != 1008 {
				t.Fatalf("it ended with %v", err)
			}
			if grown := allocated() - before; grown > 16<<20 {
				t.Errorf("%d bytes were allocated", grown)
			}
		})
	}
}

// TestPongFloodIsCutOff: those are not answered, but are work.
func TestPongFloodIsCutOff(t *testing.T) {
	onEvery(t, ws.Options{ControlLimit: 10}, func(t *testing.T, p *peer) {
		p.flood(p.frame(fin|pong, ""), 1000)
		p.endWriting()
		if err := p.end(); codeOf(err) != 1008 {
			t.Fatalf("it ended with %v", err)
		}
	})
}

// TestEndlessFragments: a message without an end, of empty fragments, of fragments of
// a byte, or as compressed ones, ends at a limit; memory does not grow with their
// number.
func TestEndlessFragments(t *testing.T) {
	for name, payload := range map[string]string{"empty": "", "of a byte": "x"} {
		t.Run(name, func(t *testing.T) {
			onEvery(t, ws.Options{FragmentLimit: 1 << 16}, func(t *testing.T, p *peer) {
				before := inUse()
				p.send(p.frame(binry, ""))
				p.flood([]byte(strings.Repeat(string(p.frame(cont, payload)), 1000)), 64)
				p.send(p.frame(fin|ping, "?"))
				p.wants(fin|pong, "?")
				if grown := int64(inUse()) - int64(before); grown > 2<<20 {
					t.Errorf("%d bytes for 64,000 fragments", grown)
				}
				p.flood([]byte(strings.Repeat(string(p.frame(cont, payload)), 1000)), 10)
				p.endWriting()
				if err := p.end(); codeOf(err) != 1008 {
					t.Fatalf("it ended with %v", err)
				}
			})
		})
	}
}

// TestHeadsThatPromiseMuch take no memory before the bytes are there.
func TestHeadsThatPromiseMuch(t *testing.T) {
	const conns = 50
	var all []*ws.Socket // for the loop
	var l *loop.Loop
	ready := make(chan bool)
	address := serveSockets(t, ws.Options{MessageLimit: 64 << 20}, func() ws.Handler {
		return &socketEcho{t: t, ended: make(chan error, 1), onOpen: func(s *ws.Socket) {
			if all = append(all, s); len(all) == conns {
				l = s.Loop()
				close(ready)
			}
		}}
	})
	var peers []*peer
	for range conns {
		peers = append(peers, join(t, address, ws.Options{}))
	}
	<-ready
	before := inUse()
	for _, p := range peers {
		p.send([]byte("\x82\xff\x00\x00\x00\x00\x02\x00\x00\x00key!"), make([]byte, 100)) // 32 MB
	}
	until(t, l, func() bool {
		n := 0
		for _, s := range all {
			if s.Conn().Info().In > 200 { // the request, and this
				n++
			}
		}
		return n == conns
	})
	if grown := int64(inUse()) - int64(before); grown > 1<<20 {
		t.Errorf("%d bytes for %d beginnings", grown, conns)
	}
}

// TestPausedReadingIsBounded: for who does not want messages, no more is kept than what
// came with the last one.
func TestPausedReadingIsBounded(t *testing.T) {
	h := &socketEcho{onMessage: func(s *ws.Socket, kind ws.Kind, _ []byte) { s.PauseReading() }}
	p := socketWith(t, ws.Options{}, h)
	message := p.frame(fin|binry, string(make([]byte, 60<<10)))
	before := inUse()
	p.nc.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)) // by then it is stuck
	sent := 0
	for {
		n, err := p.nc.Write(message)
		if sent += n; err != nil {
			break
		}
	}
	if grown := int64(inUse()) - int64(before); grown > 1<<20 {
		t.Errorf("%d bytes were kept of %d", grown, sent)
	}
}
