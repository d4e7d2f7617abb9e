package probe

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Caller is implemented by the callers of package relay. They belong to no loop, so that
// they are registered here. Its methods are for any goroutine.
type Caller interface {
	// ProbeCalls returns calls that wait for their reply, at most limit, and the number of
	// all that wait.
	ProbeCalls(limit int) (calls []Call, waiting int)
}

// Call is a call that waits for its reply.
type Call struct {
	ID        uint64
	Subject   string
	Trace     [16]byte // the id of its trace; zero for none
	Age, Left time.Duration
	Stream    bool
	Task      bool // a task waits; otherwise a goroutine does
}

var callers struct {
	mu  sync.Mutex
	ids map[Caller]int // guarded by mu
	n   int            // guarded by mu
}

// AddCaller registers a caller until RemoveCaller is called. A program has few of them.
func AddCaller(c Caller) {
	callers.mu.Lock()
	defer callers.mu.Unlock()
	if callers.ids == nil {
		callers.ids = make(map[Caller]int)
	}
	callers.n++
	callers.ids[c] = callers.n
}

// RemoveCaller reverses AddCaller.
func RemoveCaller(c Caller) {
	callers.mu.Lock()
	defer callers.mu.Unlock()
	delete(callers.ids, c)
}

// EachCaller calls fn with every registered caller and its number, oldest first.
func EachCaller(fn func(id int, c Caller)) {
	callers.mu.Lock()
	byID := make(map[int]Caller, len(callers.ids))
	for c, id := range callers.ids { // any order: each has an ID of its own
		byID[id] = c
	}
	callers.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		fn(id, byID[id])
	}
}
