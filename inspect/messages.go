package inspect

import (
	"slices"
	"sort"
	"strconv"
)

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

func (m *Message) texts() []string {
	return []string{m.Kind, m.From, m.To, m.Text, m.Note, strconv.Itoa(m.Number)}
}

// messages returns the messages until the time that a query selects.
func (h *handler) messages(q *query) (any, error) {
	r := h.Recording
	all := r.Messages
	if q.at >= 0 {
		all = all[:sort.Search(len(all), func(i int) bool { return all[i].AtNS > int64(q.at) })]
	}
	rows := keep(all, func(m *Message) bool { return q.text == "" || q.found(m.texts()...) })
	slices.Reverse(rows)
	page, paging := pageOf(q, rows, len(all))
	return MessagesAnswer{Header: r.at(q.at).Header, Paging: paging, Messages: page}, nil
}
