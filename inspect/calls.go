package inspect

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/probe"
)

// maxCalls is how many calls of each caller are shown.
const maxCalls = 1000

// calls describes the calls of package relay that wait. They belong to no loop.
func (h *handler) calls(q *query) (any, error) {
	began := now()
	all, total := []inspectapi.Call{}, 0
	probe.EachCaller(func(id int, c probe.Caller) {
		calls, waiting := c.ProbeCalls(maxCalls)
		total += waiting
		for i := range calls {
			if one := newCall(id, &calls[i]); q.text == "" || q.found(one.ID, one.Subject, one.Trace) {
				all = append(all, one)
			}
		}
	})
	slices.SortStableFunc(all, func(a, b inspectapi.Call) int { return cmp.Compare(b.AgeNS, a.AgeNS) })
	page, paging := pageOf(q, all, total)
	return inspectapi.CallsAnswer{Header: h.header(began), Paging: paging, Calls: page}, nil
}

func newCall(caller int, c *probe.Call) inspectapi.Call {
	one := inspectapi.Call{
		ID: fmt.Sprintf("r%d.%d", caller, c.ID), Subject: c.Subject, AgeNS: int64(c.Age), DeadlineLeftNS: int64(c.Left),
		Stream: c.Stream, Task: c.Task,
	}
	if c.Trace != [16]byte{} {
		one.Trace = hex.EncodeToString(c.Trace[:])
	}
	return one
}
