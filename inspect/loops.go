package inspect

import (
	"sync"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/loop"
)

// blockedAfter is how long a turn may last before the loop counts as blocked.
const blockedAfter = 100 * time.Millisecond

// answerWait is how long a loop has time to answer. A loop that is not blocked answers
// much sooner.
const answerWait = 100 * time.Millisecond

// rateInterval is the least time that rates are computed over.
const rateInterval = 200 * time.Millisecond

// vitals is what is read on a loop.
type vitals struct {
	at          time.Duration // on the inspector's clock; 0 for never
	clock       time.Duration // the same on the loop's
	answer      time.Duration // how long the loop took to answer
	stats       loop.Stats
	lanes       inspectapi.Lanes
	connections int
	in, out     uint64 // bytes of connections
	phases      *probe.Phases
	lags        probe.Lags
	requests    probe.RequestMeter
}

// read reads the vitals. It runs on the loop.
func (v *vitals) read(s *source) {
	v.stats, v.clock = s.l.Stats(), s.l.Time()
	v.lanes = inspectapi.Lanes{
		High:   s.l.Internal().ReadyIn(loop.High),
		Normal: s.l.Internal().ReadyIn(loop.Normal),
		Low:    s.l.Internal().ReadyIn(loop.Low),
	}
	s.l.Internal().EachValue(func(value any) {
		if r, ok := value.(probe.Connections); ok {
			v.connections = r.Open()
		}
		if r, ok := value.(probe.Traffic); ok {
			v.in, v.out = r.Traffic()
		}
	})
	v.lags, v.requests = s.l.Internal().Lags(), s.requests
	if p := s.l.Internal().Phases(); p != nil {
		copied := *p
		v.phases = &copied
	}
}

// refresh reads the vitals of the loop, unless another call is doing so. It waits
// until the loop has answered or expired receives a value.
func (s *source) refresh(expired <-chan time.Time) {
	s.mu.Lock()
	if s.pending || !s.answers() {
		s.mu.Unlock()
		return
	}
	s.pending = true
	s.mu.Unlock()
	var v vitals
	began := now()
	answered := s.callOnLoop(expired, func() { v.read(s) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = false
	if !answered {
		return
	}
	v.at = now()
	v.answer = v.at - began
	if v.at-s.before.at >= 2*rateInterval || s.before.at == 0 {
		s.before = s.vitals
	}
	s.vitals = v
}

// readLoops describes all loops.
func readLoops() []inspectapi.Loop {
	all := openSources()
	expired, stop := after(answerWait)
	defer stop()
	closed := make(chan time.Time)
	timeUp := sync.OnceFunc(func() { close(closed) })
	var answers sync.WaitGroup
	for _, s := range all {
		answers.Go(func() { s.refresh(closed) })
	}
	answered := make(chan struct{})
	background(func() { answers.Wait(); close(answered) })
	select {
	case <-answered:
	case <-expired:
	}
	timeUp()
	<-answered
	loops := make([]inspectapi.Loop, 0, len(all))
	for _, s := range all {
		loops = append(loops, s.describe())
	}
	return loops
}

// describe describes the loop with what it has answered last and what can be read without
// it.
func (s *source) describe() (d inspectapi.Loop) {
	defer correct(&d)
	d = inspectapi.Loop{ID: s.id, Name: s.l.Internal().Name(), Backend: s.l.Internal().Kernel().Name()}
	_, d.Inspector = servers.Load(s.l)
	s.describeState(&d)
	d.Inbox, d.FDs = s.l.Internal().InboxLen(), s.l.Internal().Watched()
	d.Workers, d.Pools = s.workers()
	d.Tasks = s.tasks.counts()

	s.mu.Lock()
	v, before := s.vitals, s.before
	s.mu.Unlock()
	if v.at == 0 {
		d.Stale = true
		return d
	}
	d.AgeNS = int64(now() - v.at)
	d.Stale = now()-v.at > answerWait
	d.AnswerNS = int64(v.answer)
	st := v.stats
	d.Turns, d.Callbacks, d.Events, d.Fired = st.Turns, st.Callbacks, st.Events, st.TimersFired
	d.Posted, d.Panics = st.Posted, st.Panics
	d.LagNS, d.MaxLagNS = int64(st.Lag), int64(st.MaxLag)
	d.Ready, d.Timers, d.Connections = v.lanes, st.Timers, v.connections
	if took := (v.at - before.at).Seconds(); before.at != 0 && took > 0 {
		d.TurnRate = float64(st.Turns-before.stats.Turns) / took
		d.CallbackRate = float64(total(st)-total(before.stats)) / took
	}
	if before.at != 0 && st.TimersFired == before.stats.TimersFired {
		d.LagNS = 0 // the last timer was late long ago
	}
	d.LagP50NS, d.LagP99NS = percentile(&v.lags, &before.lags, 0.50), percentile(&v.lags, &before.lags, 0.99)
	d.Phases = share(&v, &before)
	return d
}

// correct makes the figures that the loop answered last agree with its present state. The
// percentiles are the bounds of buckets, which the longest lag may not reach.
func correct(d *inspectapi.Loop) {
	switch d.State {
	case "blocked":
		d.TurnRate, d.CallbackRate = 0, 0
		d.LagNS = max(d.LagNS, d.StateForNS)
		d.MaxLagNS = max(d.MaxLagNS, d.LagNS)
	case "idle":
		d.TurnRate, d.CallbackRate, d.LagNS = 0, 0, 0
	}
	d.LagP50NS, d.LagP99NS = min(d.LagP50NS, d.MaxLagNS), min(d.LagP99NS, d.MaxLagNS)
}

// percentile returns the upper bound of the bucket in which a share of the lags since
// before lie, or 0 if there were none.
func percentile(lags, before *probe.Lags, share float64) int64 {
	var all, below uint64
	for i := range lags.Counts {
		all += lags.Counts[i] - before.Counts[i]
	}
	for i := range lags.Counts {
		below += lags.Counts[i] - before.Counts[i]
		if all > 0 && float64(below) >= share*float64(all) {
			return int64(probe.LagLimit(i))
		}
	}
	return 0
}

// share returns the shares of phases in the time since before. It returns nil if nothing was
// measured.
func share(v, before *vitals) *inspectapi.Phases {
	if v.phases == nil {
		return nil
	}
	p, elapsed := *v.phases, v.clock-v.phases.Began
	if b := before.phases; b != nil && b.Began == p.Began {
		p.Sub(b)
		elapsed = v.clock - before.clock
	}
	if elapsed <= 0 {
		return nil
	}
	shares := &inspectapi.Phases{Wait: min(max(float64(p.Wait)/float64(elapsed), 0), 1)}
	busy := 1 - shares.Wait
	measured := float64(p.Inbox + p.Timers + p.Ready + p.Events)
	if measured <= 0 {
		shares.Ready = busy // no turn was measured
		return shares
	}
	shares.Inbox, shares.Timers = busy*float64(p.Inbox)/measured, busy*float64(p.Timers)/measured
	shares.Ready, shares.Events = busy*float64(p.Ready)/measured, busy*float64(p.Events)/measured
	return shares
}

func total(st loop.Stats) uint64 { return st.Callbacks + st.Events + st.TimersFired }

// describeState describes what the loop is doing, without asking it.
func (s *source) describeState(d *inspectapi.Loop) {
	pulse, polled := s.l.Internal().Pulse(), s.l.Internal().LastPoll()
	d.Polls = uint64(pulse / 2)
	d.StateForNS = int64(max(s.l.Time()-polled, 0))
	if h := s.l.Internal().Host(); h != nil {
		s.describeHost(d, h.HostState())
		return
	}
	switch {
	case !s.l.Internal().Running():
		d.State, d.StateForNS = "idle", 0
	case pulse&1 == 0:
		d.State = "waiting"
	case time.Duration(d.StateForNS) < blockedAfter:
		d.State = "running"
	default:
		d.State = "blocked"
		d.Stack, d.At = s.stack.read(s, pulse)
		d.Task = s.l.Internal().RunningTask()
	}
}

// describeHost describes what the host of the loop is doing.
func (s *source) describeHost(d *inspectapi.Loop, h probe.HostState) {
	switch {
	case h.Idle:
		d.State, d.StateForNS = "idle", 0
	case h.Waiting:
		d.State = "waiting"
	case h.For < blockedAfter:
		d.State, d.StateForNS = "running", int64(h.For)
	default:
		d.State, d.StateForNS = "blocked", int64(h.For)
		d.Task, d.At, d.Stack = h.Task, h.At, h.Stack
	}
}

// answers reports whether the loop runs and is not blocked, so that a question to it is
// worth waiting for.
func (s *source) answers() bool {
	if h := s.l.Internal().Host(); h != nil {
		state := h.HostState()
		return !state.Idle && (state.Waiting || state.For < blockedAfter)
	}
	if !s.l.Internal().Running() { // between two steps, if it is stepped
		pulse := s.l.Internal().Pulse()
		return s.steps.Swap(pulse) != pulse
	}
	return s.l.Internal().Pulse()&1 == 0 || s.l.Time()-s.l.Internal().LastPoll() < blockedAfter
}

// stackReader takes stacks of the goroutine that runs a loop. Taking one stops all
// goroutines, for long in builds that need a dump, so it is done once for each turn that
// blocks, again only after a while, and for at most a twentieth of the time.
type stackReader struct {
	mu    sync.Mutex
	pulse uint32        // of the turn; guarded by mu
	at    time.Duration // when; guarded by mu
	cost  time.Duration // how long it took; guarded by mu
	stack string        // guarded by mu
}

// read returns the stack of a loop that is in the turn of pulse, and the innermost line in
// it that belongs to the program.
func (r *stackReader) read(s *source, pulse uint32) (stack, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	began := now()
	if r.pulse != pulse && r.cost > 0 && began-r.at < 20*r.cost {
		return "", "" // stacks are expensive, and the last one was taken a moment ago
	}
	if r.pulse != pulse || began-r.at > max(time.Second, 20*r.cost) {
		taken := goid.CheapStackOf(s.l.Internal().Owner())
		r.at = now()
		r.cost = r.at - began
		if s.l.Internal().Pulse() != pulse {
			return "", "" // the loop has continued
		}
		r.pulse, r.stack = pulse, string(taken)
	}
	return r.stack, goid.Line([]byte(r.stack))
}
