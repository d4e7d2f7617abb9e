package inspect

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	defaultLimit = 200
	maxLimit     = 5000
	maxText      = 200 // bytes of a filter
)

// query is the parameters of a request.
type query struct {
	loop, state, text      string
	parent, scope, nursery string
	sort                   string
	descending             bool
	offset, limit          int
	task                   string // for a stack
	force                  bool
	at                     time.Duration // of a recording; the end if it is negative
}

// taskSorts are the orders of tasks.
var taskSorts = []string{"tree", "id", "age", "name", "busy", "ready", "waiting", "waits", "switches"}

// parseQuery reads the parameters. Unknown parameters are ignored.
func parseQuery(v url.Values) (*query, error) {
	q := &query{
		loop:    v.Get("loop"),
		state:   v.Get("state"),
		text:    strings.ToLower(v.Get("q")),
		parent:  v.Get("parent"),
		scope:   v.Get("scope"),
		nursery: v.Get("nursery"),
		sort:    v.Get("sort"),
		task:    v.Get("task"),
		force:   v.Get("force") == "1",
	}
	for _, text := range []string{q.loop, q.state, q.text, q.parent, q.scope, q.nursery, q.sort, q.task} {
		if len(text) > maxText {
			return nil, fmt.Errorf("a parameter is longer than %d bytes", maxText)
		}
	}
	if q.state != "" && !slices.Contains(stateNames[:], q.state) {
		return nil, fmt.Errorf("state must be one of %s", strings.Join(stateNames[:], ", "))
	}
	q.sort, q.descending = strings.CutPrefix(q.sort, "-")
	if q.sort == "" {
		q.sort = "id"
	}
	if !slices.Contains(taskSorts, q.sort) {
		return nil, fmt.Errorf("sort must be one of %s, with - before it for the opposite order", strings.Join(taskSorts, ", "))
	}
	var err error
	if q.offset, err = number(v, "offset", 0, 1<<30); err != nil {
		return nil, err
	}
	if q.limit, err = number(v, "limit", defaultLimit, maxLimit); err != nil {
		return nil, err
	}
	ns, err := number(v, "at", -1, math.MaxInt)
	q.at = time.Duration(ns)
	return q, err
}

// number returns a parameter that is a number from 0 to most.
func number(v url.Values, name string, unset, most int) (int, error) {
	text := v.Get(name)
	if text == "" {
		return unset, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%s must be a number from 0 to %d", name, most)
	}
	return n, nil
}

// window returns the range of a page among n rows.
func (q *query) window(n int) (at, end int) {
	at = min(q.offset, n)
	return at, min(at+q.limit, n)
}
