package relay

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"time"
	"weak"

	"github.com/spindleloop/spindle/internal/probe"
)

// visible makes an inspector show the calls of c, unless c is in a simulated world.
func (c *Caller) visible() {
	if l := c.clock.l; l == nil || l.Internal().Kernel().Real() {
		probe.AddCaller(probedCaller(c))
		probe.AddMetered(probedCaller(c))
		runtime.AddCleanup(c, hide, probedCaller(c)) // if it is not closed
	}
}

// hide reverses visible.
func hide(p probed) {
	probe.RemoveCaller(p)
	probe.RemoveMetered(p)
}

// probed is a Caller as package inspect sees it. It does not keep the Caller alive.
type probed struct{ caller weak.Pointer[Caller] }

func probedCaller(c *Caller) probed { return probed{weak.Make(c)} }

// ProbeCalls describes calls that wait. It holds the lock only while it copies some fields:
// calls need the lock as well.
func (p probed) ProbeCalls(limit int) (calls []probe.Call, waiting int) {
	c := p.caller.Value()
	if c == nil {
		return nil, 0
	}
	calls = make([]probe.Call, 0, min(limit, c.o.MaxWaiters))
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.now()
	for i := range c.reg.slots {
		if len(calls) == cap(calls) {
			break
		}
		if w := c.reg.slots[i].w; w != nil {
			left, _ := w.req.remaining(now)
			calls = append(calls, probe.Call{
				ID: w.req.ID, Subject: w.req.Subject, Trace: w.req.Trace.ID,
				Age: w.req.Deadline - left, Left: left, Stream: w.stream, Task: w.among.l != nil,
			})
		}
	}
	return calls, c.reg.n
}

// waiters describes the calls that wait, oldest first. The caller holds c.mu.
func (c *Caller) waiters() (texts []string) {
	now := c.clock.now()
	var all []*waiter
	for i := range c.reg.slots {
		if w := c.reg.slots[i].w; w != nil {
			all = append(all, w)
		}
	}
	slices.SortStableFunc(all, func(a, b *waiter) int { return cmp.Compare(b.age(now), a.age(now)) })
	for _, w := range all {
		texts = append(texts, w.describe(now))
	}
	return texts
}

// age returns for how long a waiter has waited. The caller holds c.mu.
func (w *waiter) age(now time.Time) time.Duration {
	left, _ := w.req.remaining(now)
	return w.req.Deadline - left
}

// describe describes a waiter. The caller holds c.mu.
func (w *waiter) describe(now time.Time) string {
	kind := "call"
	if w.stream {
		kind = "stream"
	}
	left, _ := w.req.remaining(now)
	text := fmt.Sprintf("%s %d of %s, age %v, %v left", kind, w.req.ID, w.req.Subject, w.req.Deadline-left, left)
	if id := traceID(&w.req.Trace); id != "" {
		text += ", trace " + id
	}
	return text
}

// maxMetered is how many subjects of a Caller have metrics of their own.
const maxMetered = 64

// durations are how long calls took, by subject. Guarded by the mutex of the Caller.
type durations map[string]*probe.Durations

func (d durations) add(subject string, took time.Duration) {
	of := d[subject]
	if of == nil {
		if len(d) >= maxMetered {
			subject = "other"
			of = d[subject]
		}
		if of == nil {
			of = &probe.Durations{}
			d[subject] = of
		}
	}
	of.Add(took)
}

// measure counts how long a call took that has a reply. The caller holds c.mu.
func (c *Caller) measure(w *waiter) {
	if c.took == nil {
		c.took = durations{}
	}
	left, _ := w.req.remaining(c.clock.now())
	c.took.add(w.req.Subject, w.req.Deadline-left)
}

// ProbeMetrics returns the counts of a Caller.
func (p probed) ProbeMetrics() (all []probe.Sample) {
	c := p.caller.Value()
	if c == nil {
		return nil
	}
	s := c.Stats()
	all = append(all, probe.Sample{Name: "spindle_relay_waiters", Help: "Calls that wait for their reply.", Gauge: true, Value: float64(s.Waiting)})
	for _, n := range []struct {
		result string
		count  uint64
	}{{"replied", s.Replied}, {"timed_out", s.TimedOut}, {"canceled", s.Canceled}, {"failed", s.Failed}, {"refused", s.Refused}} {
		all = append(all, probe.Sample{
			Name: "spindle_relay_calls_total", Help: "Calls that have ended, by result.",
			Labels: [][2]string{{"result", n.result}}, Value: float64(n.count),
		})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for subject, took := range c.took { // any order: each sample has its own labels
		copied := *took
		all = append(all, probe.Sample{
			Name: "spindle_relay_call_duration_seconds", Help: "How long calls took that have a reply, since metrics were first read.",
			Labels: [][2]string{{"subject", subject}}, Took: &copied,
		})
	}
	return all
}

// measure counts how long a handler took.
func (s *service) measure(began time.Time) {
	took := s.clock.now().Sub(began)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent.Add(took)
}

// ProbeMetrics returns the counts of a Serve.
func (s *service) ProbeMetrics() (all []probe.Sample) {
	st := s.counts()
	labels := [][2]string{{"subject", s.subject}, {"group", s.o.Group}}
	all = append(all, probe.Sample{Name: "spindle_relay_handlers", Help: "Handlers that run.", Gauge: true, Labels: labels, Value: float64(st.Running)})
	for _, n := range []struct {
		result string
		count  uint64
	}{{"ok", st.Finished - st.Failed}, {"failed", st.Failed}, {"expired", st.Expired}, {"revoked", st.Revoked}, {"duplicate", st.Duplicate}} {
		all = append(all, probe.Sample{
			Name: "spindle_relay_requests_total", Help: "Requests that a worker has taken, by result.",
			Labels: append(labels[:2:2], [2]string{"result", n.result}), Value: float64(n.count),
		})
	}
	if sub, ok := s.sub.(*subscription); ok {
		all = append(all, probe.Sample{Name: "spindle_relay_queued", Help: "Requests in the queue of a group inside the process.", Gauge: true, Labels: labels, Value: float64(sub.g.q.len())})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.spent
	return append(all, probe.Sample{
		Name: "spindle_relay_handler_duration_seconds", Help: "How long handlers took, since metrics were first read.", Labels: labels, Took: &took,
	})
}

// ProbeService describes a Serve.
func (s *service) ProbeService() probe.Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	return probe.Service{
		Bus: s.bus, Subject: s.subject, Group: s.o.Group, Requests: s.stats.Finished, Errors: s.stats.Failed, LastError: s.lastError, Busy: s.spent.Sum,
	}
}

// visible makes an inspector show the metrics of s, unless s is in a simulated world, until the
// function that it returns is called.
func (s *service) visible() (hide func()) {
	if l := s.clock.l; l != nil && !l.Internal().Kernel().Real() {
		return func() {}
	}
	probe.AddMetered(s)
	return func() { probe.RemoveMetered(s) }
}
