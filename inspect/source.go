package inspect

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/loop"
)

// source is a loop that is inspected. Any goroutine may use it.
type source struct {
	id string
	l  *loop.Loop

	mu      sync.Mutex
	vitals  vitals // guarded by mu
	before  vitals // the ones that rates are computed from; guarded by mu
	pending bool   // vitals are on their way; guarded by mu

	attached  attached // guarded by mu
	wanted    attached // guarded by mu
	attaching bool     // wanted is on its way to the loop; guarded by mu

	steps atomic.Uint32 // the pulse of a loop that did not run when it was last looked at

	tasks    taskReader
	numbers  objectNumbers
	sockets  socketReader
	stack    stackReader
	requests probe.RequestMeter // loop goroutine only
}

// sources is the loops of the process that an inspector has seen.
var sources struct {
	mu   sync.Mutex
	byID map[uint64]*source // guarded by mu
}

// openSources returns the open loops of the process that run on a real kernel, oldest
// first.
func openSources() (all []*source) {
	sources.mu.Lock()
	defer sources.mu.Unlock()
	byID := make(map[uint64]*source)
	for _, l := range loop.Internal().Open() {
		c := l.Internal()
		if !c.Kernel().Real() {
			continue
		}
		s := sources.byID[c.ID()]
		if s == nil {
			s = &source{id: loopID(c.ID()), l: l}
		}
		byID[c.ID()] = s
		all = append(all, s)
	}
	sources.byID = byID // closed loops are forgotten
	return all
}

// knownSource returns the loop with an id if an inspector has seen it, or nil.
func knownSource(id uint64) *source {
	sources.mu.Lock()
	defer sources.mu.Unlock()
	return sources.byID[id]
}

// callOnLoop runs fn on the loop and waits for it, at most until expired receives a value. It
// reports whether fn has run to its end. If it reports false, fn will not begin any more,
// or will be running for a while: unlike onloop.Call it does not wait for a call that has
// begun, because an inspector must not hang with the loop that it looks at.
func (s *source) callOnLoop(expired <-chan time.Time, fn func()) bool {
	if s.l.Owns() {
		fn()
		return true
	}
	done := make(chan struct{})
	var dropped atomic.Bool // the caller does not wait any more
	err := s.l.Internal().Post(atclose.Drop, func() {
		if !dropped.Load() {
			fn()
			close(done)
		}
	})
	if err != nil {
		return false
	}
	select {
	case <-done:
		return true
	case <-s.l.Done():
	case <-expired:
	}
	dropped.Store(true)
	return false
}
