package coro

import (
	"github.com/spindleloop/spindle/internal/goid"
)

// A coroutine can be switched to only under the thread lock it was made under: on the
// same thread, locked as often, or on any thread that is not locked. Otherwise the
// runtime ends the process. So the scheduler knows the lock of every coroutine, and
// panics with a message before such a switch. Design 006 lists the cases.

// lockID is the index of a thread lock in threads.locks; 0 is no lock.
type lockID uint32

// threads is what a scheduler knows about thread locks. Loop goroutine only.
type threads struct {
	now    lockID // tasks run under it
	locks  []goid.ThreadLock
	others []underLock // the coroutines that can continue only under another lock, by its lockID
}

// underLock is the coroutines that were made under one lock.
type underLock struct {
	idle  []*Coro
	stuck []*Coro // were due under another lock
}

// ThreadChanged is the panic of a task that waits or ends after it has changed the lock
// of its thread.
const ThreadChanged = "spindle: a task cannot wait, end or start another one eagerly" +
	" while its thread is locked (runtime.LockOSThread, or a callback from C)"

const (
	changedByCallback = "spindle: a callback of the loop cannot return or start a task eagerly" +
		" while it has changed the lock of its thread (runtime.LockOSThread, or a callback from C)"
	lostThread = "spindle: a task has unlocked the thread that its loop is stepped on" +
		" (runtime.UnlockOSThread), and cannot get back to it"
)

// lockWord returns the word that MayHoldThread reads.
func (c *Coro) lockWord() *uintptr {
	if c.own.lock != 0 {
		return &madeLocked
	}
	return goid.LockWord(c.g)
}

var madeLocked uintptr = 1

// MayHoldThread reports whether HoldsThread must be called. It is one load.
func (c *Coro) MayHoldThread() bool { return *c.lock != 0 }

// HoldsThread reports whether the task has changed the lock of its thread.
func (c *Coro) HoldsThread() bool {
	return c.MayHoldThread() && goid.LockOf(c.g) != c.s.threads.locks[c.own.lock]
}

// CheckThread panics if the task has changed the lock of its thread. It is inlined: every
// wait calls it.
func (c *Coro) CheckThread() {
	if c.MayHoldThread() {
		c.checkLock()
	}
}

// checkLock is CheckThread where the thread is locked.
func (c *Coro) checkLock() {
	if c.HoldsThread() {
		// Inside a callback from C this fails. The panic will leave that.
		c.s.threads.locks[c.own.lock].Restore()
		panic(ThreadChanged)
	}
}

// RestoreThread undoes what the task did to the lock of its thread.
func (c *Coro) RestoreThread() {
	if c.HoldsThread() && !c.s.threads.locks[c.own.lock].Restore() {
		OnGoroutine(func() { panic(lostThread) }) // the runtime would end the process at the next switch
	}
}

// identifyDriver makes the driver the goroutine that runs the loop.
func (s *Scheduler) identifyDriver() {
	if g := s.loop.Internal().Owner(); g != s.driver.g {
		s.driver.g = g
		if g != 0 { // else the loop does not run: a run ends
			s.driver.lock = goid.LockWord(g)
		}
	}
}

// match makes the lock that the loop was entered under the present one. It panics if c
// cannot continue under it, or if a callback has changed it.
func (s *Scheduler) match(c *Coro) {
	if !s.useEntered() {
		s.loop.Internal().ResumeSoon(c.lane, c)
		panic(changedByCallback)
	}
	if c.own.lock != s.threads.now {
		under := &s.threads.others[c.own.lock]
		under.stuck = append(under.stuck, c)
		s.loop.Internal().OnEntry(s.enteredAgain)
		panic(s.stuckMessage(c))
	}
}

// matchLane is match for a task that has not begun.
func (s *Scheduler) matchLane(lane *freshLane) {
	if !s.useEntered() {
		s.loop.Internal().ResumeSoon(lane.priority, lane)
		panic(changedByCallback)
	}
}

// CheckBegin panics if the caller cannot switch to a task, as RunNested does.
func (s *Scheduler) CheckBegin() {
	switch {
	case s.running != nil:
		s.running.CheckThread()
	case s.loop.Owns() && !s.useEntered():
		panic(changedByCallback)
	}
}

// useEntered makes the lock that the loop was entered under the present one. If a
// callback has changed the lock since, useEntered changes it back, if it can, and
// reports false.
func (s *Scheduler) useEntered() bool {
	want := s.loop.Internal().Entered()
	if goid.LockOf(s.loop.Internal().Owner()) != want {
		want.Restore()
		return false
	}
	s.use(want)
	return true
}

// enteredAgain queues the stuck tasks that can continue where the loop is run from now
// on.
func (s *Scheduler) enteredAgain() {
	s.use(s.loop.Internal().Entered())
	for _, under := range s.threads.others {
		if len(under.stuck) > 0 {
			s.loop.Internal().OnEntry(s.enteredAgain)
		}
	}
}

// use makes lock the present one: it changes the pool, and queues the tasks that were
// stuck and can continue under it.
func (s *Scheduler) use(lock goid.ThreadLock) {
	th := &s.threads
	id := th.id(lock)
	if id == th.now {
		return
	}
	th.others[th.now].idle = s.idle
	th.now = id
	under := th.others[id]
	th.others[id] = underLock{}
	s.idle = under.idle
	for _, c := range under.stuck {
		s.loop.Internal().ResumeSoon(c.lane, c)
	}
}

func (th *threads) id(lock goid.ThreadLock) lockID {
	for id, known := range th.locks {
		if known == lock {
			return lockID(id)
		}
	}
	th.locks = append(th.locks, lock)
	th.others = append(th.others, underLock{})
	return lockID(len(th.locks) - 1)
}

// stuckMessage returns the panic message for a task that cannot continue under the
// present lock.
func (s *Scheduler) stuckMessage(c *Coro) string {
	began := "that was locked (runtime.LockOSThread, or a callback from C)"
	now := "not locked in the same way"
	if c.own.lock == 0 {
		began, now = "that was not locked", "locked (runtime.LockOSThread, or a callback from C)"
	}
	return "spindle: the task " + c.body.Name() + " began while the loop was run on a thread " + began +
		", and cannot go on while the loop is run on a thread that is " + now
}
