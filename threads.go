package spindle

import (
	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/loop"
)

// A coroutine can be switched to only under the thread lock it was made under: on the
// same thread, locked as often, or on any thread that is not locked. Otherwise the
// runtime ends the process. So the scheduler knows the lock of every coroutine, and
// panics by name before such a switch. docs/design/006-threads.md lists the cases.

// lockID is the index of a thread lock in threads.locks; 0 is no lock.
type lockID uint32

// threads is what a scheduler knows of thread locks. Loop goroutine only.
type threads struct {
	now    lockID // under which tasks run
	locks  []goid.ThreadLock
	others []underLock // what can go on only under another lock, by its lockID
}

// underLock is the coroutines that one lock has.
type underLock struct {
	pool     []*coro
	stranded []*coro // whose turn came under another lock
}

const (
	keptThread = "spindle: a task cannot wait, end or start another one eagerly" +
		" while its thread is locked (runtime.LockOSThread, or a callback from C)"
	keptByCallback = "spindle: a callback of the loop cannot return or start a task eagerly" +
		" while it has changed the lock of its thread (runtime.LockOSThread, or a callback from C)"
	lostThread = "spindle: a task has unlocked the thread that its loop is stepped on" +
		" (runtime.UnlockOSThread), and cannot get back to it"
)

// lockWord returns the word that mayHoldThread looks at.
func (c *coro) lockWord() *uintptr {
	if c.seat.lock != 0 {
		return &madeLocked
	}
	return goid.LockWord(c.g)
}

var madeLocked uintptr = 1

// mayHoldThread reports whether holdsThread must be asked.
func (c *coro) mayHoldThread() bool { return *c.lock != 0 }

// holdsThread reports whether the task has changed the lock of its thread.
func (c *coro) holdsThread() bool {
	return c.mayHoldThread() && goid.LockOf(c.g) != c.s.threads.locks[c.seat.lock]
}

// mustLeaveThread panics if the task has changed the lock of its thread. It is inlined:
// every wait calls it.
func (c *coro) mustLeaveThread() {
	if c.mayHoldThread() {
		c.refuseHeldThread()
	}
}

// refuseHeldThread is mustLeaveThread where the thread is locked.
func (c *coro) refuseHeldThread() {
	if c.holdsThread() {
		// Inside a callback from C this fails. The panic will leave that.
		c.s.threads.locks[c.seat.lock].Restore()
		panic(keptThread)
	}
}

// freeThread undoes what the task did to the lock of its thread.
func (c *coro) freeThread() {
	if c.holdsThread() && !c.s.threads.locks[c.seat.lock].Restore() {
		aside(func() { panic(lostThread) }) // the runtime would end the process at the next switch
	}
}

// identifyDriver makes the driver the goroutine that runs the loop.
func (s *sched) identifyDriver() {
	if g := s.l.Owner(); g != s.driver.g {
		s.driver.g = g
		if g != 0 { // else the loop does not run: a run ends
			s.driver.lock = goid.LockWord(g)
		}
	}
}

// match makes the lock that the loop was entered under the present one, and panics if c
// cannot go on under it, or if a callback has changed it.
func (s *sched) match(c *coro) {
	if !s.entered() {
		s.l.ResumeSoon(c.task.lane, c)
		panic(keptByCallback)
	}
	if c.seat.lock != s.threads.now {
		under := &s.threads.others[c.seat.lock]
		under.stranded = append(under.stranded, c)
		s.l.OnEntry(s.reenter)
		panic(s.stranded(c))
	}
}

// matchLane is match for a task that has not begun.
func (s *sched) matchLane(lane *freshLane) {
	if !s.entered() {
		for p := range s.lanes {
			if lane == &s.lanes[p] {
				s.l.ResumeSoon(loop.Priority(p), lane)
			}
		}
		panic(keptByCallback)
	}
}

// mayVisit panics if the caller cannot switch to a task that starts eagerly.
func (s *sched) mayVisit() {
	switch {
	case s.running != nil:
		s.running.co.mustLeaveThread()
	case s.l.Owns() && !s.entered():
		panic(keptByCallback)
	}
}

// entered makes the lock that the loop was entered under the present one. If a callback
// has changed the lock since, entered changes it back, if it can, and returns false.
func (s *sched) entered() bool {
	want := s.l.Entered()
	if goid.LockOf(s.l.Owner()) != want {
		want.Restore()
		return false
	}
	s.use(want)
	return true
}

// reenter looks whether stranded tasks can go on where the loop is run from now on.
func (s *sched) reenter() {
	s.use(s.l.Entered())
	for _, under := range s.threads.others {
		if len(under.stranded) > 0 {
			s.l.OnEntry(s.reenter)
		}
	}
}

// use makes the pool that of another lock, and queues the tasks that can go on under it.
func (s *sched) use(lock goid.ThreadLock) {
	th := &s.threads
	id := th.id(lock)
	if id == th.now {
		return
	}
	th.others[th.now].pool = s.pool
	th.now = id
	under := th.others[id]
	th.others[id] = underLock{}
	s.pool = under.pool
	for _, c := range under.stranded {
		s.l.ResumeSoon(c.task.lane, c)
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

// stranded returns the panic message for a task that cannot go on under the present lock.
func (s *sched) stranded(c *coro) string {
	began := "that was locked (runtime.LockOSThread, or a callback from C)"
	now := "not locked in the same way"
	if c.seat.lock == 0 {
		began, now = "that was not locked", "locked (runtime.LockOSThread, or a callback from C)"
	}
	return "spindle: the task " + c.task.Name() + " began while the loop was run on a thread " + began +
		", and cannot go on while the loop is run on a thread that is " + now
}
