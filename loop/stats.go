package loop

import "time"

// Stats are the statistics of a loop since it was made.
type Stats struct {
	Turns       uint64
	Callbacks   uint64 // of CallSoon and Post, that ran
	Posted      uint64 // of these, those of Post
	TimersFired uint64
	Events      uint64 // fd callbacks
	Panics      uint64
	JobsDone    uint64 // offloaded and delivered

	Ready  int // callbacks waiting in the lanes
	Timers int // timers set
	FDs    int // descriptors watched
	Jobs   int // offloaded, not yet delivered

	// Lag is how late the first timer of the last batch was: how long a callback
	// that is due now has to wait. MaxLag is the largest Lag.
	Lag, MaxLag time.Duration
}

func (l *Loop) observeLag(lag time.Duration) {
	l.stats.Lag = lag
	l.stats.MaxLag = max(l.stats.MaxLag, lag)
	l.lags.Add(lag)
}

// Stats returns the statistics. It is for the loop's goroutine; elsewhere, post a function
// that calls it.
func (l *Loop) Stats() Stats {
	l.only("Stats")
	s := l.stats
	s.Callbacks = l.callbacks() - s.TimersFired - s.Events
	s.Ready = l.waiting()
	s.Timers = l.wheel.Len()
	s.FDs = int(l.watches.active.Load())
	s.Jobs, s.JobsDone = l.jobs()
	return s
}

// callbacks returns the number of callbacks that have run.
func (l *Loop) callbacks() uint64 {
	return l.stats.TimersFired + l.stats.Events + l.ran()
}

// Turn holds the duration of each phase of a turn.
type Turn struct {
	Inbox, Timers, Ready, Wait, Events time.Duration
	Callbacks                          int // how many ran
}

// observation is a turn that is being observed.
type observation struct {
	Turn
	last   time.Duration
	before uint64
}

// begin begins a turn. It reports false for a turn that an inspector leaves out.
func (o *observation) begin(l *Loop) bool {
	if l.opts.OnTurn == nil && !l.phases.Sample() {
		return false
	}
	*o = observation{last: l.k.Mono(), before: l.callbacks()}
	return true
}

// phase adds the time since the last phase to took.
func (o *observation) phase(l *Loop, took *time.Duration) {
	now := l.k.Mono()
	*took += now - o.last
	o.last = now
}

func (o *observation) end(l *Loop) {
	if p := l.phases; p != nil {
		p.Add(o.Inbox, o.Timers, o.Ready, o.Events)
	}
	if l.opts.OnTurn != nil {
		o.Callbacks = int(l.callbacks() - o.before)
		l.opts.OnTurn(o.Turn)
	}
}
