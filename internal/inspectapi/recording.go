package inspectapi

// HistoryAnswer is the answer of /api/v1/history, which only a recording has.
type HistoryAnswer struct {
	Header
	Title   string   `json:"title"`
	Moments []Moment `json:"moments"` // oldest first
}

// Moment is one snapshot of a recording. The parameter at=AtNS of other paths selects it.
type Moment struct {
	AtNS  int64        `json:"at_ns"` // since the beginning
	Loops []MomentLoop `json:"loops"`
}

// MomentLoop is what a chart shows of a loop.
type MomentLoop struct {
	ID           string  `json:"id"`
	State        string  `json:"state"`
	LagNS        int64   `json:"lag_ns"`
	CallbackRate float64 `json:"callback_rate"`
}

// MessagesAnswer is the answer of /api/v1/messages, which only the recording of a simulated
// world has.
type MessagesAnswer struct {
	Header
	Paging
	Messages []Message `json:"messages"` // the newest first
}

// Message is an event of a simulated world: a message between two hosts, or what was done to
// one. sim.Event explains the kinds.
type Message struct {
	Number    int    `json:"number"`  // in the order of the events
	AtNS      int64  `json:"at_ns"`   // when it arrived or happened
	SentNS    int64  `json:"sent_ns"` // when it was sent
	Kind      string `json:"kind"`
	From      string `json:"from"`
	To        string `json:"to,omitempty"`
	SizeBytes int    `json:"size_bytes,omitempty"`
	Text      string `json:"text,omitempty"` // the whole event in words
	Note      string `json:"note,omitempty"`
}
