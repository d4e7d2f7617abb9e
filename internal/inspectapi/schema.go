// Package inspectapi has the answers of the JSON API of package inspect, for the server, the
// command that reads them, and recordings. docs/design/023-inspect.md explains each field.
package inspectapi

import "time"

// Version is the version of the schema, and of the paths /api/v1/. Fields are added
// without a new version; a field that is removed or changes its meaning takes a new one.
const Version = 1

// Header is a part of every answer.
type Header struct {
	Version int       `json:"version"`
	TakenAt time.Time `json:"taken_at"`
	TookNS  int64     `json:"took_ns"` // how long it took to collect the answer
	Process Process   `json:"process"`
}

// Process describes the inspected process.
type Process struct {
	PID           int    `json:"pid"`
	Program       string `json:"program"`    // the last element of its path
	GoVersion     string `json:"go_version"` // go1.26
	GOMAXPROCS    int    `json:"gomaxprocs"`
	Goroutines    int    `json:"goroutines"`
	HeapBytes     uint64 `json:"heap_bytes"`          // of live and unswept objects
	ActionAllowed bool   `json:"action_allowed"`      // Options.AllowActions
	Inspector     string `json:"inspector,omitempty"` // the address of a Server that can take the place of the handler that answers
}

// LoopsAnswer is the answer of /api/v1/loops.
type LoopsAnswer struct {
	Header
	Loops []Loop `json:"loops"`
}

// Loop describes a loop. State, StateForNS, Stack, Task, Polls, Inbox, FDs, Workers and
// Pools are read without the loop, and are right even while it is blocked. The rest is read
// on the loop. If the loop did not answer in time, the rest is what it answered last, and
// Stale is set.
type Loop struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Backend string `json:"backend"` // epoll, kqueue, poll, sim

	Inspector bool `json:"inspector"` // it is the inspector's own

	State      string `json:"state"`           // running, waiting, blocked, idle; paused in a simulated world
	StateForNS int64  `json:"state_for_ns"`    // since the kernel was last polled
	Stack      string `json:"stack,omitempty"` // of the goroutine that runs the loop, if blocked
	At         string `json:"at,omitempty"`    // the innermost line in it that belongs to the program
	Task       string `json:"task,omitempty"`  // the task that blocks it, with those above it in the tree and its scope
	Polls      uint64 `json:"polls"`           // how often the kernel was polled, modulo 2^31

	Inbox   int     `json:"inbox"`   // posted, not taken
	FDs     int     `json:"fds"`     // watched descriptors
	Workers Workers `json:"workers"` // the loop's own
	Pools   []Pool  `json:"pools"`   // others that it has used

	Stale     bool   `json:"stale"`
	AgeNS     int64  `json:"age_ns"`      // of what follows
	AnswerNS  int64  `json:"answer_ns"`   // how long the loop took to answer: its lag as others see it
	Turns     uint64 `json:"turns"`       // and the counters that follow: since the loop was made
	Callbacks uint64 `json:"callbacks"`   // of CallSoon and Post
	Events    uint64 `json:"events"`      // callbacks of descriptors
	Fired     uint64 `json:"timers_done"` // callbacks of timers
	Posted    uint64 `json:"posted"`
	Panics    uint64 `json:"panics"`

	TurnRate     float64 `json:"turn_rate"`     // per second, over the last interval
	CallbackRate float64 `json:"callback_rate"` // of all kinds, per second

	LagNS    int64 `json:"lag_ns"`     // how late the last timer of the last interval was; if the loop is blocked, for how long at least
	MaxLagNS int64 `json:"max_lag_ns"` // the largest one so far
	LagP50NS int64 `json:"lag_p50_ns"` // over the last interval, an upper bound within a factor of two, at most MaxLagNS
	LagP99NS int64 `json:"lag_p99_ns"`

	Phases *Phases `json:"phases"` // null until the inspector is attached for one interval

	Ready  Lanes      `json:"ready"`
	Timers int        `json:"timers"` // set
	Tasks  TaskCounts `json:"tasks"`  // of the last task snapshot

	Connections int `json:"connections"` // open
}

// Phases is how the loop has spent the last interval, in shares that add up to 1.
type Phases struct {
	Inbox  float64 `json:"inbox"`
	Timers float64 `json:"timers"`
	Ready  float64 `json:"ready"` // callbacks and tasks
	Wait   float64 `json:"wait"`  // in the kernel
	Events float64 `json:"events"`
}

// Lanes is the number of callbacks and tasks that are ready, by priority.
type Lanes struct {
	High   int `json:"high"`
	Normal int `json:"normal"`
	Low    int `json:"low"`
}

// TaskCounts is the number of tasks by state.
type TaskCounts struct {
	Fresh   int `json:"fresh"`
	Ready   int `json:"ready"`
	Running int `json:"running"`
	Waiting int `json:"waiting"`
}

// TasksAnswer is the answer of /api/v1/tasks.
type TasksAnswer struct {
	Header
	Paging
	Loops []TaskLoop `json:"loops"` // which loops the tasks are of
	Tasks []Task     `json:"tasks"`
}

// Paging is the place of a page among all rows.
type Paging struct {
	Total   int `json:"total"`   // rows
	Matched int `json:"matched"` // rows that pass the filter
	Offset  int `json:"offset"`  // of the first row here, among those that match
	Limit   int `json:"limit"`
}

// TaskLoop is how the tasks of a loop were read.
type TaskLoop struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Stale    bool   `json:"stale"`     // the loop did not answer: the rows are those of AgeNS ago
	AgeNS    int64  `json:"age_ns"`    // of the rows
	SlicesNS int64  `json:"slices_ns"` // how long the loop was held in all
	LongNS   int64  `json:"long_ns"`   // the longest time that it was held at once
	Slices   int    `json:"slices"`
}

// Task describes a task.
type Task struct {
	ID       string `json:"id"`
	Loop     string `json:"loop"`
	Parent   string `json:"parent,omitempty"` // the task that opened its nursery
	Depth    int    `json:"depth"`            // how many tasks are above it
	Name     string `json:"name"`
	Function string `json:"function"`           // file:line of its function
	Started  string `json:"started,omitempty"`  // file:line at which it was started, if that was recorded
	State    string `json:"state"`              // fresh, ready, running, waiting
	Priority string `json:"priority,omitempty"` // high, low; empty for normal
	Service  bool   `json:"service,omitempty"`  // of a service on the loop, such as a web server
	Nursery  string `json:"nursery"`
	Scope    string `json:"scope"` // the innermost one

	DeadlineLeftNS *int64 `json:"deadline_left_ns,omitempty"` // negative after the deadline
	CancelReason   string `json:"cancel_reason,omitempty"`    // if it is cancelled

	WaitsFor   string `json:"waits_for,omitempty"`
	WaitsNS    int64  `json:"waits_ns,omitempty"`     // since when
	WaitsOn    string `json:"waits_on,omitempty"`     // the id of a task or a synchronization object
	HeldBy     string `json:"held_by,omitempty"`      // the id of the task that holds it
	HeldByName string `json:"held_by_name,omitempty"` // and its name
	Cycle      bool   `json:"cycle,omitempty"`        // it waits, through others, for itself

	Time *TaskTime `json:"time,omitempty"` // absent until accounting has seen the task
}

// TaskTime is how a task has spent its time.
type TaskTime struct {
	AgeNS     int64  `json:"age_ns"`
	Whole     bool   `json:"whole"` // since it began; otherwise since the inspector was attached
	BusyNS    int64  `json:"busy_ns"`
	ReadyNS   int64  `json:"ready_ns"`
	WaitingNS int64  `json:"waiting_ns"`
	Switches  uint64 `json:"switches"`
}

// StackAnswer is the answer of /api/v1/stack.
type StackAnswer struct {
	Header
	Task  string `json:"task"`
	At    string `json:"at"` // the innermost line that belongs to the program
	Stack string `json:"stack"`
}

// WaitsAnswer is the answer of /api/v1/waits: the graph of what waits for what.
type WaitsAnswer struct {
	Header
	Nodes  []WaitNode `json:"nodes"`
	Edges  []WaitEdge `json:"edges"`
	Cycles [][]string `json:"cycles"` // each the ids of its nodes, in order
	More   int        `json:"more"`   // edges left out

	CycleDetails []CycleDetail `json:"cycle_details"` // of each of Cycles
}

// CycleDetail says what waits for what in a cycle.
type CycleDetail struct {
	Text           string `json:"text"`                       // A waits for Mutex 1, held by B, which waits for A
	DeadlineLeftNS *int64 `json:"deadline_left_ns,omitempty"` // until the first deadline of a task ends it; absent if it does not end by itself
}

// WaitNode is a task or a synchronization object.
type WaitNode struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"` // task, or the kind of the object
	Name  string `json:"name"`
	Cycle bool   `json:"cycle"`
}

// WaitEdge means that From waits for To.
type WaitEdge struct {
	From  string `json:"from"`
	To    string `json:"to"`
	What  string `json:"what"` // waits_for of a task; "held by" from an object to its holder
	ForNS int64  `json:"for_ns"`
	Cycle bool   `json:"cycle"`
}

// SocketsAnswer is the answer of /api/v1/sockets.
type SocketsAnswer struct {
	Header
	Paging
	Sockets []Socket `json:"sockets"`
}

// Socket describes a connection, a listener or a datagram socket.
type Socket struct {
	ID       string `json:"id"`
	Loop     string `json:"loop"`
	FD       int    `json:"fd"`
	Kind     string `json:"kind"` // transport, stream, listener, packet, watch
	Network  string `json:"network"`
	Local    string `json:"local"`
	Peer     string `json:"peer"`
	Protocol string `json:"protocol,omitempty"` // http, h2, websocket, hijacked, or a type's name
	TLS      bool   `json:"tls"`
	State    string `json:"state"`            // open, handshaking, closing, shut
	AgeNS    *int64 `json:"age_ns,omitempty"` // since the inspector has seen it first

	InBytes     *uint64 `json:"in_bytes,omitempty"`
	OutBytes    *uint64 `json:"out_bytes,omitempty"`
	UnsentBytes int     `json:"unsent_bytes"`
	HighWater   int     `json:"high_water_bytes,omitempty"`
	LowWater    int     `json:"low_water_bytes,omitempty"`
	ReadPaused  bool    `json:"read_paused"`
	WritePaused bool    `json:"write_paused"` // above the high water mark

	Streams *Streams `json:"streams,omitempty"` // of an HTTP/2 connection
}

// RequestsAnswer is the answer of /api/v1/requests.
type RequestsAnswer struct {
	Header
	Paging
	Requests []Request `json:"requests"`
}

// Request describes an HTTP request that a server of package web is answering.
type Request struct {
	Loop    string `json:"loop"`
	Socket  string `json:"socket"`
	Stream  uint32 `json:"stream,omitempty"` // of an HTTP/2 connection
	Method  string `json:"method"`
	Path    string `json:"path"` // without the query
	Peer    string `json:"peer"`
	Phase   string `json:"phase"`  // body, handling, sending, file
	Runs    string `json:"runs"`   // inline, worker
	Status  int    `json:"status"` // 0 before the header, and for handlers on workers
	AgeNS   int64  `json:"age_ns"`
	Written int64  `json:"written_bytes"`  // of the body
	Task    string `json:"task,omitempty"` // of an inline handler
}

// SyncAnswer is the answer of /api/v1/sync.
type SyncAnswer struct {
	Header
	Paging
	Objects []SyncObject `json:"objects"`
}

// SyncObject is a synchronization object that at least one task waits for.
type SyncObject struct {
	ID       string   `json:"id"`
	Loop     string   `json:"loop"`
	Kind     string   `json:"kind"` // Mutex, Queue, …
	Name     string   `json:"name"` // its kind, and a number in the order of appearance
	Used     *int     `json:"used,omitempty"`
	Capacity *int     `json:"capacity,omitempty"` // 0 of a channel without a buffer; absent if there is no limit
	Holders  []string `json:"holders,omitempty"`  // tasks, where the object knows them
	Waiters  []string `json:"waiters"`            // tasks, at most 100
	Waiting  int      `json:"waiting"`            // how many wait
	LongNS   int64    `json:"long_ns"`            // how long the first of them has waited

	HolderNames []string `json:"holder_names,omitempty"`
	WaiterNames []string `json:"waiter_names"` // of the first 10 waiters
}

// EndedAnswer is the answer of /api/v1/ended.
type EndedAnswer struct {
	Header
	Paging
	Tasks []EndedTask `json:"tasks"` // the newest first
}

// EndedTask is a task that has ended.
type EndedTask struct {
	ID       string    `json:"id"`
	Loop     string    `json:"loop"`
	Parent   string    `json:"parent,omitempty"`
	Name     string    `json:"name"`
	Function string    `json:"function"`
	Outcome  string    `json:"outcome"` // ok, error, cancelled, panic, exit
	Error    string    `json:"error,omitempty"`
	AgoNS    int64     `json:"ago_ns"`
	Time     *TaskTime `json:"time,omitempty"`
}

// CallsAnswer is the answer of /api/v1/calls.
type CallsAnswer struct {
	Header
	Paging
	Calls []Call `json:"calls"` // the oldest first; of a caller with more than 1,000 any 1,000
}

// Call is a call of package relay that waits for its reply.
type Call struct {
	ID             string `json:"id"`
	Subject        string `json:"subject"`
	AgeNS          int64  `json:"age_ns"`
	DeadlineLeftNS int64  `json:"deadline_left_ns"`
	Stream         bool   `json:"stream,omitempty"` // more than one reply may come
	Task           bool   `json:"task,omitempty"`   // a task waits; otherwise a goroutine does
	Trace          string `json:"trace,omitempty"`  // the id of its W3C trace, in hexadecimal
}

// BlockedAnswer is the answer of /api/v1/blocked.
type BlockedAnswer struct {
	Header
	Paging
	Blocked []Blocked `json:"blocked"` // the newest first
}

// Blocked is a turn that took too long.
type Blocked struct {
	Loop    string    `json:"loop"`
	Name    string    `json:"name"` // of the loop
	At      time.Time `json:"at"`   // when it was noticed
	ForNS   int64     `json:"for_ns"`
	Ended   bool      `json:"ended"`   // ForNS is final
	Starved bool      `json:"starved"` // the loop got too little CPU
	Task    string    `json:"task,omitempty"`
	Line    string    `json:"line"` // the innermost line that belongs to the program
	Stack   string    `json:"stack"`
}

// ErrorAnswer is the answer to a request that fails.
type ErrorAnswer struct {
	Version int    `json:"version"`
	Error   string `json:"error"`
}

// ActionAnswer is the answer to an action that succeeded.
type ActionAnswer struct {
	Version int    `json:"version"`
	Done    string `json:"done"`            // what was done
	Tasks   int    `json:"tasks,omitempty"` // how many tasks were cancelled
}

// Pool is a pool of workers that the loop has used, besides its own: a spindle.Pool, or one of
// those that packages of this module have for TLS handshakes, name lookups and files.
type Pool struct {
	Name string `json:"name"`
	Workers
}

// Workers are the goroutines of Offload and Blocking.
type Workers struct {
	Limit  int    `json:"limit"`
	Busy   int    `json:"busy"`
	Queued int    `json:"queued"` // jobs that no worker has begun
	Done   uint64 `json:"done"`   // jobs delivered
}
