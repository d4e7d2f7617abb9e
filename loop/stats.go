package loop

import "time"

// Stats is an account of a loop's life so far.
type Stats struct {
	Turns       uint64
	Callbacks   uint64 // run, of CallSoon and Post
	Posted      uint64 // of these, by Post
	TimersFired uint64
	Events      uint64 // fd callbacks
	Panics      uint64
	JobsDone    uint64 // offloaded, and delivered

	Ready  int // callbacks waiting in the lanes
	Timers int // timers set
	FDs    int // descriptors watched
	Jobs   int // offloaded, not yet delivered

	// Lag is by how much the first timer of the last batch was late: how
	// long something that wants to run now has to wait. MaxLag is the worst.
	Lag, MaxLag time.Duration
}

func (s *Stats) observeLag(lag time.Duration) {
	s.Lag = lag
	s.MaxLag = max(s.MaxLag, lag)
}

// Stats returns the account. It is for the loop's goroutine; elsewhere, Post a
// function that calls it.
func (l *Loop) Stats() Stats {
	l.only("Stats")
	s := l.stats
	s.Callbacks = l.callbacks() - s.TimersFired - s.Events
	s.Ready = l.waiting()
	s.Timers = l.wheel.Len()
	s.FDs = int(l.fds.Load())
	s.Jobs, s.JobsDone = l.workers.account()
	return s
}

// callbacks is how many have run. A lane's head is the number of those that
// left it: no counter is needed on the way of each.
func (l *Loop) callbacks() uint64 {
	n := l.stats.TimersFired + l.stats.Events
	for i := range l.lanes {
		n += l.lanes[i].ran()
	}
	return n
}

// Observer is told how a loop spends its time. It is called on the loop at the
// end of each turn that no panic cut short.
type Observer interface {
	ObserveTurn(Turn)
}

// Turn is how long each phase of a turn took.
type Turn struct {
	Inbox, Timers, Ready, Wait, Events time.Duration
	Callbacks                          int // how many ran
}

// observation is a turn under observation.
type observation struct {
	Turn
	last   time.Duration
	before uint64
}

func (o *observation) begin(l *Loop) {
	*o = observation{last: l.k.Mono(), before: l.callbacks()}
}

// phase books the time since the last phase.
func (o *observation) phase(l *Loop, took *time.Duration) {
	now := l.k.Mono()
	*took += now - o.last
	o.last = now
}

func (o *observation) end(l *Loop) {
	o.Callbacks = int(l.callbacks() - o.before)
	l.opts.Observer.ObserveTurn(o.Turn)
}
