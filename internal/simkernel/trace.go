package simkernel

import (
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"time"
)

// Kind is the kind of an event.
type Kind uint8

const (
	Connecting Kind = iota + 1
	Connected
	Refused
	Data
	Ended
	Reset
	Datagram
	Dropped
	Crashed
	Booted
	Paused
	Resumed
	Partitioned
	Healed
	CallFailed
	ClockSet
	RateSet
	Noted
)

// kinds has the name of each kind, and the phrase that describes it in a trace.
var kinds = [...]struct{ name, phrase string }{
	Connecting:  {"connect", "connects to"},
	Connected:   {"connected", "is connected to"},
	Refused:     {"refused", "refuses"},
	Data:        {"data", "sends"},
	Ended:       {"end", "ends sending to"},
	Reset:       {"reset", "resets"},
	Datagram:    {"datagram", "sends datagram to"},
	Dropped:     {"dropped", "cannot reach"},
	Crashed:     {"crash", "crashes"},
	Booted:      {"boot", "boots"},
	Paused:      {"pause", "pauses"},
	Resumed:     {"resume", "resumes"},
	Partitioned: {"partition", "is partitioned from"},
	Healed:      {"heal", "is reconnected to"},
	CallFailed:  {"call", "has a failing call"},
	ClockSet:    {"clock", "has a new clock"},
	RateSet:     {"bandwidth", "has a new bandwidth to"},
	Noted:       {"note", "notes"},
}

// KindOf returns the kind of an event. It returns 0 if Event.Kind has no valid name.
func (e *Event) KindOf() Kind {
	for k := range kinds {
		if k > 0 && kinds[k].name == e.Kind {
			return Kind(k)
		}
	}
	return 0
}

// Phrase returns the verb that describes the kind: "crashes".
func (k Kind) Phrase() string { return kinds[k].phrase }

// Event is an entry of a trace. Package sim documents its fields.
type Event struct {
	At       time.Duration
	Sent     time.Duration
	Kind     string
	From, To string
	Conn     int
	Port     int
	Size     int
	Data     string
	Text     string
	Note     string
}

// traceEvent is an Event in a compact form, because the trace of a long run is long.
type traceEvent struct {
	at       time.Duration
	travel   time.Duration // how long it travelled
	note     string
	from, to int32
	conn     uint32
	size     int32
	port     uint16
	kind     Kind
	headLen  uint8
	head     [headBytes]byte
	long     string // replaces head if there are more bytes
}

// headBytes is how many bytes of a message are kept without an allocation. keepBytes is how
// many are kept by default.
const (
	headBytes = 24
	keepBytes = 200
)

// maxEvents is the maximal number of events in a trace. Of a longer run it has the last.
const maxEvents = 1 << 18

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// Trace records what has happened. Two runs with the same seed have the same hash, which
// covers everything, including the order of running and events that are no longer kept.
type Trace struct {
	events []traceEvent
	first  int // index of the oldest event once events is full
	count  uint64
	hash   uint64
	keep   int // bytes of each message
	format func(Event) string
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (t *Trace) mix(values ...uint64) {
	for _, v := range values {
		t.hash = (t.hash ^ v) * fnvPrime
	}
}

func (t *Trace) add(w *World, e traceEvent) {
	e.at = w.Now()
	t.count++
	t.mix(uint64(e.at), uint64(e.kind)<<56|uint64(uint16(e.from))<<40|uint64(uint16(e.to))<<24|uint64(e.port), uint64(e.conn)<<32|uint64(uint32(e.size)))
	switch {
	case len(t.events) < maxEvents:
		t.events = append(t.events, e)
	default:
		t.events[t.first] = e
		t.first = (t.first + 1) % maxEvents
	}
}

// data records the arrival of the next n bytes of a flow.
func (t *Trace) data(f *flow, n uint64, travel time.Duration) {
	e := traceEvent{kind: Data, travel: travel, from: f.from.hostID(), to: f.to.hostID(), conn: f.id, size: int32(n)}
	e.keep(t, f.buf.peek(f.arrived-f.read, n))
	t.add(f.w, e)
}

func (t *Trace) datagram(p *packet, note string) {
	e := traceEvent{kind: Datagram, travel: p.target.w.Now() - p.sent, from: p.sender.host.id, to: p.target.id, port: p.to.Port(), size: int32(len(p.data)), note: note}
	e.keep(t, p.data)
	t.add(p.target.w, e)
}

// keep records the first bytes of a message, and adds all of them to the hash.
func (e *traceEvent) keep(t *Trace, b []byte) {
	t.mix(uint64(crc32.Checksum(b, castagnoli)))
	b = b[:min(len(b), t.keep)]
	switch {
	case len(b) > headBytes:
		e.long = string(b)
	default:
		e.headLen = uint8(copy(e.head[:], b))
	}
}

// data returns the recorded bytes of a message.
func (e *traceEvent) data() string {
	if e.long != "" {
		return e.long
	}
	return string(e.head[:e.headLen])
}

// since returns the time that has passed since a moment.
func (w *World) since(moment uint64) time.Duration { return w.Now() - time.Duration(moment) }

// moment returns the present time as an argument of an event.
func (w *World) moment() uint64 { return uint64(w.Now()) }

// Note adds a line to the trace.
func (w *World) Note(h *Host, text string) {
	e := traceEvent{kind: Noted, from: -1, to: -1, note: text}
	if h != nil {
		e.from, e.to = h.id, h.id
	}
	sum := crc32.Checksum([]byte(text), castagnoli)
	w.trace.mix(uint64(sum))
	if j := w.journal; j != nil {
		j.add(w, h, w.current.Load(), action{w.Now(), notes, e.from, int64(len(text)), sum})
	}
	w.trace.add(w, e)
}

// KeepData sets how many bytes of each message are kept from now on.
func (w *World) KeepData(n int) { w.trace.keep = max(n, 0) }

// SetFormat sets the function that describes messages.
func (w *World) SetFormat(format func(Event) string) { w.trace.format = format }

// Hash returns a hash of everything that has happened.
func (w *World) Hash() uint64 { return w.trace.hash }

// Events returns the number of events so far.
func (w *World) Events() uint64 { return w.trace.count }

// Trace returns the events that are still kept.
func (w *World) Trace() []Event {
	t := &w.trace
	events := make([]Event, 0, len(t.events))
	for i := range t.events {
		e := &t.events[(t.first+i)%len(t.events)]
		event := Event{
			At: e.at, Sent: e.at - e.travel, Kind: kinds[e.kind].name, From: w.hostName(e.from), To: w.hostName(e.to),
			Conn: int(e.conn), Port: int(e.port), Size: int(e.size),
			Data: e.data(), Note: e.note,
		}
		if t.format != nil && event.Size > 0 {
			event.Text = t.format(event)
		}
		events = append(events, event)
	}
	return events
}

func (w *World) hostName(id int32) string {
	if id < 0 {
		return ""
	}
	return w.hosts[id].name
}

func (e Event) String() string {
	var b strings.Builder
	e.write(&b)
	return b.String()
}

func (e Event) write(b io.Writer) {
	kind := e.KindOf()
	fmt.Fprintf(b, "%12v  %s %s", e.At, e.From, kind.Phrase())
	switch {
	case kind == Data:
		fmt.Fprintf(b, " to %s %d bytes", e.To, e.Size)
	case e.From != e.To || kind < Crashed:
		fmt.Fprintf(b, " %s", e.To)
	}
	if e.Port != 0 {
		fmt.Fprintf(b, ":%d", e.Port)
	}
	if e.Conn != 0 {
		fmt.Fprintf(b, " #%d", e.Conn)
	}
	if kind != Data && e.Size != 0 {
		fmt.Fprintf(b, ", %d bytes", e.Size)
	}
	switch {
	case e.Text != "":
		fmt.Fprintf(b, " [%s]", strings.ReplaceAll(e.Text, "\n", " "))
	case e.Data != "":
		fmt.Fprintf(b, " %q", e.Data)
		if e.Size > len(e.Data) {
			io.WriteString(b, "…")
		}
	}
	if e.Note != "" {
		fmt.Fprintf(b, " (%s)", e.Note)
	}
}
