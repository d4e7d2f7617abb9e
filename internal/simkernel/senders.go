package simkernel

import (
	"sort"
	"time"
)

// A world that names tasks keeps which task has sent what. A trace has the arrival of
// messages, so the two are put together when the trace is read.

// sender is a task that has used a socket.
type sender struct {
	at   time.Duration
	task string
}

// sending is the part of a host's traffic that has one order: that of a connection, or, with
// 0, what belongs to none.
type sending struct {
	host int32
	conn uint32
}

// NameTasks makes the world keep the names of tasks that send. The run stays the same.
func (w *World) NameTasks() { w.senders = map[sending][]sender{} }

// sign keeps the name of the task that uses a socket to send or to connect.
func (p *Process) sign(o object) {
	if p.w.senders == nil || p.Running == nil {
		return
	}
	task := p.Running()
	if task == "" {
		return
	}
	key := sending{host: p.host.id}
	if c, ok := o.(*conn); ok {
		key.conn = c.id
	}
	p.w.senders[key] = append(p.w.senders[key], sender{p.w.Now(), task})
}

// Senders returns the name of the task that has sent each event of Trace, or "".
func (w *World) Senders() []string {
	t := &w.trace
	names := make([]string, len(t.events))
	for i := range t.events {
		e := &t.events[(t.first+i)%len(t.events)]
		key := sending{host: e.from}
		switch e.kind {
		case Data, Ended:
			key.conn = e.conn
		case Connecting, Connected, Datagram, Dropped:
		default:
			continue
		}
		all := w.senders[key]
		if n := sort.Search(len(all), func(n int) bool { return all[n].at > e.at-e.travel }); n > 0 {
			names[i] = all[n-1].task
		}
	}
	return names
}
