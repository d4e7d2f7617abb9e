package cosync

import (
	"math"
	"reflect"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/probe"
)

// An inspector finds an object through the tasks that wait for it: the Aborter of their
// wait is a waiter, and its queue knows the object. Objects that no task waits for are not
// shown.

// ProbeObject describes the object that w waits for. The queues of an Inbox are guarded by
// a mutex, and not looked at.
func (w *waiter[T]) ProbeObject() probe.ObjectInfo {
	if o := w.Object(); o != nil {
		return o.ProbeObject()
	}
	return probe.ObjectInfo{}
}

// Object returns the object that w waits for, or nil if it is not known.
func (w *waiter[T]) Object() probe.Object {
	if w.remote != nil || w.queue == nil {
		return nil
	}
	return w.queue.object
}

// Holders returns the tasks that hold the object that w waits for, where it knows more
// than one.
func (w *waiter[T]) Holders() []*spindle.Task {
	if w.remote != nil || w.queue == nil {
		return nil
	}
	if l, ok := w.queue.object.(*limiterProbe); ok {
		return l.holders()
	}
	return nil
}

// Readers returns the tasks that share the lock that w waits for, as far as they are known.
func (w *waiter[T]) Readers() []coro.Ref {
	if w.remote != nil || w.queue == nil {
		return nil
	}
	if m, ok := w.queue.object.(*rwmutexProbe); ok {
		return m.known
	}
	return nil
}

// Objects as an inspector sees them, so that their exported types have no methods for it.
type (
	mutexProbe        Mutex
	rwmutexProbe      RWMutex
	limiterProbe      Limiter
	barrierProbe      Barrier
	queueProbe[T any] Queue[T]
)

// ProbeObject describes the mutex.
func (m *mutexProbe) ProbeObject() probe.ObjectInfo {
	s := Statistics{Capacity: 1}
	if m.held {
		s.Used = 1
	}
	return describe("Mutex", m, s)
}

// ProbeObject describes the mutex.
func (m *rwmutexProbe) ProbeObject() probe.ObjectInfo {
	s := Statistics{Used: m.readers, Capacity: math.MaxInt}
	if m.writing {
		s.Used = 1
	}
	return describe("RWMutex", m, s)
}

// ProbeObject describes the limiter.
func (l *limiterProbe) ProbeObject() probe.ObjectInfo {
	return describe("Limiter", l, (*Limiter)(l).Statistics())
}

// maxHolders is the number of holders of an object that are looked at.
const maxHolders = 64

// holders returns the tasks that have a token, in no particular order, unless there are many.
func (l *limiterProbe) holders() (tasks []*spindle.Task) {
	if len(l.borrowers) > maxHolders {
		return nil
	}
	for borrower, has := range l.borrowers { // any order: inspectors show them side by side
		if t, ok := borrower.(*spindle.Task); ok && has {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// ProbeObject describes the barrier.
func (b *barrierProbe) ProbeObject() probe.ObjectInfo {
	return describe("Barrier", b, Statistics{Used: b.waiting.n, Capacity: b.parties})
}

// ProbeObject describes the queue.
func (q *queueProbe[T]) ProbeObject() probe.ObjectInfo {
	return describe("Queue", q, (*Queue[T])(q).Statistics())
}

// ProbeObject describes the channel.
func (c *channel[T]) ProbeObject() probe.ObjectInfo { return describe("Channel", c, c.statistics()) }

// describe describes the object at address.
func describe(kind string, address any, s Statistics) probe.ObjectInfo {
	if s.Capacity == math.MaxInt {
		s.Capacity = probe.Unlimited
	}
	return probe.ObjectInfo{ID: reflect.ValueOf(address).Pointer(), Kind: kind, Used: s.Used, Capacity: s.Capacity, Known: true}
}
