package inspect

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/spindleloop/spindle/internal/onloop"
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

// callOnLoop runs fn on the loop and waits for it. It reports whether fn has run to its end. If
// ctx ends before fn has begun, fn does not run: an inspector must not hang with the loop that it
// looks at. Fn itself must be short.
func (s *source) callOnLoop(ctx context.Context, fn func()) bool {
	if s.l.Owns() {
		fn()
		return true
	}
	returned, err := onloop.Call(ctx, s.l, "inspect", func(done func(bool)) {
		returned := false
		defer func() { done(returned) }()
		fn()
		returned = true
	})
	return returned && err == nil
}
