package inspect

import (
	"slices"
	"sort"

	"github.com/spindleloop/spindle/internal/inspectapi"
)

// messages returns the messages until the time that a query selects.
func (h *handler) messages(q *query) (any, error) {
	r := h.Recording
	all := r.Messages
	if q.at >= 0 {
		all = all[:sort.Search(len(all), func(i int) bool { return all[i].AtNS > int64(q.at) })]
	}
	rows := keep(all, func(m *inspectapi.Message) bool { return q.text == "" || q.found(m.Texts()...) })
	slices.Reverse(rows)
	page, paging := pageOf(q, rows, len(all))
	return inspectapi.MessagesAnswer{Header: r.at(q.at).Header, Paging: paging, Messages: page}, nil
}
