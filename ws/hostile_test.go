package ws_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/ws"
)

// inUse returns the number of bytes in use on the heap.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// TestPingFloodIsCutOff checks that the flood ends the connection within a second
// and that no pongs accumulate.
func TestPingFloodIsCutOff(t *testing.T) {
	for _, s := range implementations {
		t.Run(s.name, func(t *testing.T) {
			p := s.open(t, ws.Options{})
			before := allocated()
			p.flood(p.frame(fin|ping, strings.Repeat("x", 125)), 20_000) // 2.5 MB, while reading nothing
			p.endWriting()
			if err := p.end(); codeOf(err) != 1008 {
				t.Fatalf("closed with %v", err)
			}
			if grown := allocated() - before; grown > 16<<20 {
				t.Errorf("%d bytes were allocated", grown)
			}
		})
	}
}

// TestPingsAndNoReading checks that a peer that sends pings and does not read the
// pongs cannot delay a reader forever.
func TestPingsAndNoReading(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: each lingers for a second")
	}
	o := ws.Options{ControlLimit: 60_000, CloseTimeout: 50 * time.Millisecond}
	for _, s := range implementations {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p := s.open(t, o)
			go func() { // until the other side closes
				many := []byte(strings.Repeat(string(p.frame(fin|ping, strings.Repeat("x", 125))), 500))
				p.flood(many, 10_000)
			}()
			if err := p.end(); err == nil {
				t.Error("no reason")
			}
		})
	}
}

// TestPongFloodIsCutOff: pongs need no answer, but cost time.
func TestPongFloodIsCutOff(t *testing.T) {
	onEvery(t, ws.Options{ControlLimit: 10}, func(t *testing.T, p *peer) {
		p.flood(p.frame(fin|pong, ""), 1000)
		p.endWriting()
		if err := p.end(); codeOf(err) != 1008 {
			t.Fatalf("closed with %v", err)
		}
	})
}

// TestEndlessFragments sends messages without an end: of empty fragments, of
// one-byte fragments, and compressed ones. They end at a limit, and memory does not
// grow with their number.
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
					t.Fatalf("closed with %v", err)
				}
			})
		})
	}
}

// TestLargeHeads checks that a head that announces a large payload allocates nothing
// before the payload arrives.
func TestLargeHeads(t *testing.T) {
	const conns = 50
	var all []*ws.Socket // for the loop only
	var l *loop.Loop
	ready := make(chan bool)
	address := serveSockets(t, ws.Options{MessageLimit: 64 << 20}, func() ws.Handler {
		return &socketEcho{t: t, ended: make(chan error, 1), onOpen: func(s *ws.Socket) {
			if all = append(all, s); len(all) == conns {
				l = s.Conn().Loop()
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
	until.OnLoop(t, l, func() bool {
		n := 0
		for _, s := range all {
			if s.Conn().Info().In > 200 { // the request, and this frame
				n++
			}
		}
		return n == conns
	})
	if grown := int64(inUse()) - int64(before); grown > 1<<20 {
		t.Errorf("%d bytes for %d incomplete frames", grown, conns)
	}
}

// TestPausedReadingIsBounded checks that a paused Socket buffers no more than
// arrived with the last message, even if it pauses again right after resuming.
func TestPausedReadingIsBounded(t *testing.T) {
	first := true
	h := &socketEcho{onMessage: func(s *ws.Socket, kind ws.Kind, _ []byte) {
		s.PauseReading()
		if first {
			s.Conn().Loop().CallSoon(s.ResumeReading)
		}
		first = false
	}}
	p := socketWith(t, ws.Options{}, h)
	message := []byte(strings.Repeat(string(p.frame(fin|binry, string(make([]byte, 1<<10)))), 60))
	before := inUse()
	p.nc.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)) // the peer cannot send more by then
	sent := 0
	for {
		n, err := p.nc.Write(message)
		if sent += n; err != nil {
			break
		}
	}
	if grown := int64(inUse()) - int64(before); grown > 1<<20 {
		t.Errorf("%d bytes were buffered of %d", grown, sent)
	}
}

// allocated returns the number of bytes allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
