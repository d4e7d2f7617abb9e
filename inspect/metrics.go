package inspect

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/loop"
)

// maxMetricLoops bounds the label sets: further loops are not in the metrics.
const maxMetricLoops = 64

// serveMetrics serves the metrics in the text format of Prometheus.
func (h *handler) serveMetrics(w http.ResponseWriter, r *http.Request) {
	if !h.authorized(r) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="spindle"`)
		fail(w, http.StatusUnauthorized, "the bearer token is missing or wrong")
		return
	}
	h.attachMetrics()
	probe.Measuring.Store(true)
	text, err := offLoop(r, func() (any, error) { return readMetrics(), nil })
	if err != nil {
		fail(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(text.(string)))
}

// loopMetrics is what the metrics of a loop are made of.
type loopMetrics struct {
	inspectapi.Loop
	v          vitals
	blocked    uint64
	websockets int
	labels     string
}

// readMetrics returns the metrics of all loops.
func readMetrics() string {
	loops := readLoops()
	var all []loopMetrics
	for _, l := range loops[:min(len(loops), maxMetricLoops)] {
		s := sourceByID(l.ID)
		if s == nil || l.Inspector {
			continue
		}
		m := loopMetrics{Loop: l, labels: fmt.Sprintf(`loop="%s",name="%s"`, l.ID, escapeLabel(l.Name))}
		s.mu.Lock()
		m.v = s.vitals
		s.mu.Unlock()
		_, m.blocked = s.l.Internal().BlockedTurns()
		for _, row := range s.readSockets() {
			if row.Protocol == "websocket" {
				m.websockets++
			}
		}
		if snap, _ := s.readTasks(); snap != nil {
			m.Tasks = snap.counts
			snap.release()
		}
		all = append(all, m)
	}
	w := &metricWriter{loops: all}
	w.write()
	return w.String()
}

// escapeLabel escapes the value of a label, which is at most 64 characters long.
func escapeLabel(s string) string {
	if r := []rune(strings.ToValidUTF8(s, "?")); len(r) > 64 {
		s = string(r[:64])
	} else {
		s = string(r)
	}
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
}

// metricWriter writes metrics.
type metricWriter struct {
	strings.Builder
	loops []loopMetrics
}

// write writes all metrics.
func (w *metricWriter) write() {
	counter, gauge := "counter", "gauge"
	stat := func(get func(loop.Stats) uint64) func(*loopMetrics) float64 {
		return func(m *loopMetrics) float64 { return float64(get(m.v.stats)) }
	}
	w.each("spindle_loop_turns_total", counter, "Turns of the loop.", stat(func(s loop.Stats) uint64 { return s.Turns }))
	w.labelled("spindle_loop_callbacks_total", counter, "Callbacks that ran, by kind.", "kind", map[string]func(*loopMetrics) float64{
		"ready": stat(func(s loop.Stats) uint64 { return s.Callbacks }),
		"timer": stat(func(s loop.Stats) uint64 { return s.TimersFired }),
		"event": stat(func(s loop.Stats) uint64 { return s.Events }),
	})
	w.each("spindle_loop_posted_total", counter, "Callbacks that other goroutines posted.", stat(func(s loop.Stats) uint64 { return s.Posted }))
	w.each("spindle_loop_panics_total", counter, "Callbacks that panicked.", stat(func(s loop.Stats) uint64 { return s.Panics }))
	w.each("spindle_loop_blocked_turns_total", counter, "Turns that the watchdog reported.", func(m *loopMetrics) float64 { return float64(m.blocked) })
	w.each("spindle_loop_blocked_seconds", gauge, "How long the present turn has blocked the loop; 0 if it is not blocked.", func(m *loopMetrics) float64 {
		if m.State != "blocked" {
			return 0
		}
		return time.Duration(m.StateForNS).Seconds()
	})
	w.lags()
	w.labelled("spindle_loop_ready", gauge, "Callbacks and tasks that are ready, by lane.", "lane", map[string]func(*loopMetrics) float64{
		"high":   func(m *loopMetrics) float64 { return float64(m.Ready.High) },
		"normal": func(m *loopMetrics) float64 { return float64(m.Ready.Normal) },
		"low":    func(m *loopMetrics) float64 { return float64(m.Ready.Low) },
	})
	w.each("spindle_loop_inbox", gauge, "Callbacks that were posted and not taken.", func(m *loopMetrics) float64 { return float64(m.Inbox) })
	w.each("spindle_loop_timers", gauge, "Timers that are set.", func(m *loopMetrics) float64 { return float64(m.Timers) })
	w.each("spindle_loop_fds", gauge, "Descriptors that are watched.", func(m *loopMetrics) float64 { return float64(m.FDs) })
	w.each("spindle_workers_busy", gauge, "Worker goroutines that exist.", func(m *loopMetrics) float64 { return float64(m.Workers.Busy) })
	w.each("spindle_workers_queued", gauge, "Jobs that no worker has begun.", func(m *loopMetrics) float64 { return float64(m.Workers.Queued) })
	w.each("spindle_jobs_total", counter, "Jobs of workers that were delivered.", func(m *loopMetrics) float64 { return float64(m.Workers.Done) })
	w.pools("spindle_pool_limit", gauge, "The most calls of Blocking that run in a pool.", func(p *inspectapi.Pool) float64 { return float64(p.Limit) })
	w.pools("spindle_pool_busy", gauge, "Worker goroutines of a pool that exist.", func(p *inspectapi.Pool) float64 { return float64(p.Busy) })
	w.pools("spindle_pool_queued", gauge, "Calls of Blocking that wait for a worker of their pool.", func(p *inspectapi.Pool) float64 { return float64(p.Queued) })
	w.pools("spindle_pool_jobs_total", counter, "Calls of Blocking in a pool that were delivered.", func(p *inspectapi.Pool) float64 { return float64(p.Done) })
	w.labelled("spindle_tasks", gauge, "Tasks by state.", "state", map[string]func(*loopMetrics) float64{
		"fresh":   func(m *loopMetrics) float64 { return float64(m.Tasks.Fresh) },
		"ready":   func(m *loopMetrics) float64 { return float64(m.Tasks.Ready) },
		"running": func(m *loopMetrics) float64 { return float64(m.Tasks.Running) },
		"waiting": func(m *loopMetrics) float64 { return float64(m.Tasks.Waiting) },
	})
	w.each("spindle_connections", gauge, "Open connections.", func(m *loopMetrics) float64 { return float64(m.Connections) })
	w.each("spindle_websockets", gauge, "Open WebSocket connections.", func(m *loopMetrics) float64 { return float64(m.websockets) })
	w.labelled("spindle_bytes_total", counter, "Bytes of connections, by direction.", "direction", map[string]func(*loopMetrics) float64{
		"in":  func(m *loopMetrics) float64 { return float64(m.v.in) },
		"out": func(m *loopMetrics) float64 { return float64(m.v.out) },
	})
	w.requests()
	var all []probe.Sample
	for _, m := range probe.AllMetered() {
		all = append(all, m.ProbeMetrics()...)
	}
	w.metered(all)
}

func (w *metricWriter) head(name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// each writes a metric with one sample for each loop.
func (w *metricWriter) each(name, kind, help string, get func(*loopMetrics) float64) {
	w.head(name, kind, help)
	for i := range w.loops {
		w.sample(name, w.loops[i].labels, get(&w.loops[i]))
	}
}

// labelled writes a metric with a sample for each loop and value of a label.
func (w *metricWriter) labelled(name, kind, help, label string, get map[string]func(*loopMetrics) float64) {
	w.head(name, kind, help)
	for i := range w.loops {
		for _, value := range sortedKeys(get) {
			w.sample(name, fmt.Sprintf(`%s,%s="%s"`, w.loops[i].labels, label, value), get[value](&w.loops[i]))
		}
	}
}

// pools writes a metric with a sample for each loop and pool that it has used.
func (w *metricWriter) pools(name, kind, help string, get func(*inspectapi.Pool) float64) {
	w.head(name, kind, help)
	for i := range w.loops {
		for _, p := range w.loops[i].Pools {
			w.sample(name, fmt.Sprintf(`%s,pool="%s"`, w.loops[i].labels, escapeLabel(p.Name)), get(&p))
		}
	}
}

func (w *metricWriter) sample(name, labels string, value float64) {
	fmt.Fprintf(w, "%s{%s} %s\n", name, labels, strconv.FormatFloat(value, 'g', -1, 64))
}

// lags writes the histogram of how late timers were.
func (w *metricWriter) lags() {
	const name = "spindle_loop_lag_seconds"
	w.head(name, "histogram", "How late timers were: how long a callback that is due has to wait.")
	for i := range w.loops {
		h := &w.loops[i].v.lags
		w.histogram(name, w.loops[i].labels, h.Counts[:], func(b int) time.Duration { return probe.LagLimit(b) }, h.Sum)
	}
}

// requests writes how many HTTP requests there were and how long they took.
func (w *metricWriter) requests() {
	w.head("spindle_http_requests_total", "counter", "HTTP requests answered since metrics were first read, by class of their status.")
	for i := range w.loops {
		for class, n := range w.loops[i].v.requests.Classes {
			name := fmt.Sprintf("%dxx", class)
			if class == 0 {
				name = "none"
			}
			w.sample("spindle_http_requests_total", fmt.Sprintf(`%s,class="%s"`, w.loops[i].labels, name), float64(n))
		}
	}
	const name = "spindle_http_request_duration_seconds"
	w.head(name, "histogram", "How long HTTP requests took, from the header to the end of the handler.")
	for i := range w.loops {
		m := &w.loops[i].v.requests
		w.histogram(name, w.loops[i].labels, m.Took[:], requestBucket, m.Sum)
	}
}

func requestBucket(i int) time.Duration { return probe.RequestBuckets[i] }

// histogram writes a histogram. The last count is of values without an upper bound.
func (w *metricWriter) histogram(name, labels string, counts []uint64, limit func(int) time.Duration, sum time.Duration) {
	var below uint64
	for i, n := range counts {
		below += n
		bound := "+Inf"
		if i < len(counts)-1 {
			bound = strconv.FormatFloat(limit(i).Seconds(), 'g', -1, 64)
		}
		w.sample(name+"_bucket", fmt.Sprintf(`%s,le="%s"`, labels, bound), float64(below))
	}
	w.sample(name+"_sum", labels, sum.Seconds())
	w.sample(name+"_count", labels, float64(below))
}
