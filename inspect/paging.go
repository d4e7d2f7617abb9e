package inspect

import "github.com/spindleloop/spindle/internal/inspectapi"

// sources returns the loops that a query asks for. The inspector's own ones are not part of
// the program: they must be named.
func (q *query) sources() (all []*source) {
	for _, s := range openSources() {
		if _, own := servers.Load(s.l); q.loop == s.id || q.loop == "" && !own {
			all = append(all, s)
		}
	}
	return all
}

// pageOf returns the page of rows that a query asks for.
func pageOf[T any](q *query, rows []T, total int) ([]T, inspectapi.Paging) {
	at, end := q.window(len(rows))
	return rows[at:end], inspectapi.Paging{Total: total, Matched: len(rows), Offset: at, Limit: q.limit}
}
