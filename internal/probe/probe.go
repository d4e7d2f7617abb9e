// Package probe has the data that the packages of this module give to package inspect
// about themselves. It names no type of those packages, so that each of them can import
// it, and package inspect need not know how they keep what it shows.
//
// The values that a package keeps with a loop (internal/perloop), the watchers of
// descriptors and the protocols of connections implement the interfaces here that apply
// to them. Package inspect finds them there. Nothing is registered, and nothing costs
// anything until an inspector asks.
//
// Unless its comment says otherwise, a method is for the goroutine of the loop. Data
// carries no payload: names, states, counts and times only.
package probe

import "time"

// Tasks is implemented by the state that package spindle keeps with a loop.
type Tasks interface {
	// WalkTasks begins a walk over all tasks of the loop.
	WalkTasks() TaskWalk
	// Attach turns accounting on or off: Task.Account, Task.Started and Ended.
	Attach(on bool)
	// Pin makes walks keep the objects that the tasks of the last walk refer to, so that no
	// other object has the identity of one of them in the walk after it.
	Pin()
	// LabelAll sets whether short tasks of services get a pprof label too, while accounting
	// is on.
	LabelAll(on bool)
	// Ended returns the tasks that have ended last while accounting was on, the oldest
	// first, at most KeepEnded.
	Ended() []EndedTask
	// InScope reports whether the task of a walk in progress is in the scope with that id.
	InScope(t *Task, id uintptr) bool
	// Cancel cancels the scope with that id if the task of a walk in progress is in it, or
	// the task, with those that it has started, if the id is 0. It returns the number of
	// tasks that the cancellation reaches. It only counts them if cause is nil.
	Cancel(t *Task, scope uintptr, cause error) (tasks int)
}

// KeepEnded is the number of ended tasks that are remembered for each loop.
const KeepEnded = 256

// EndedTask is a task that has ended.
type EndedTask struct {
	ID, Parent uint64
	Name       string
	Code       uintptr
	Outcome    string // ok, error, cancelled, panic, exit
	Error      string
	At         time.Duration // on the loop's clock
	Account    Account
	Known      bool // Account is known
}

// TaskWalk is a walk over the tasks of a loop, in parts, between which the loop runs. It
// visits every task that exists from its beginning to its end exactly once, and others at
// most once.
type TaskWalk interface {
	// Next calls visit for further tasks until enough reports true, which is called
	// after every few tasks. It reports whether there are more. The Task is valid
	// during the call only.
	Next(enough func() bool, visit func(*Task)) (more bool)
	// End ends the walk before its end.
	End()
}

// Connections is implemented by the state that the packages of sockets keep with a loop.
type Connections interface {
	// Open returns the number of open connections.
	Open() int
}

// State is the state of a task.
type State uint8

// The states of tasks.
const (
	Fresh   State = iota // not begun
	Ready                // in a lane of the loop
	Running              // executing
	Waiting              // for what WaitsFor says
)

// Task describes a task.
type Task struct {
	ID       uint64  // in the order of starting, unique on the loop
	Parent   uint64  // the task that opened its nursery; 0 for none
	Nursery  uintptr // identifies the nursery
	Scope    uintptr // identifies the innermost scope
	Name     string  // that it was given; "" for that of its function
	Code     uintptr // of its function
	Function string  // where its function is, if it is not of Go and has no Code
	Started  [6]uintptr
	State    State
	Priority uint8
	Service  bool // of a nursery that callback code opened

	Deadline    time.Duration // on the loop's clock; of the scopes around it, the earliest; NoDeadline for none
	Cancelled   error         // the cancellation in force where the task is; nil for none
	Goroutine   uintptr       // as goid.Current identifies it; 0 before it has begun
	WaitsFor    string
	WaitsSince  time.Duration // on the loop's clock
	WaitsOnTask uint64        // the task that holds the lock, or gives the result; 0 if that is not known
	WaitsOn     Object        // nil if it is not known
	Lot         uintptr       // identifies the queue that it waits in, if it is a Lot
	Holders     []uint64      // the tasks that hold what it waits for, where there can be several
	Joined      bool          // its parent waits for it: its nursery is being joined

	Account   Account
	Accounted bool // Account is known: the inspector is attached

	Ref any // for Cancel
}

// NoDeadline is the Deadline of a task without one.
const NoDeadline = time.Duration(1<<63 - 1)

// Account is how a task has spent its time since accounting was turned on or since it
// began.
type Account struct {
	Busy, Ready, Waiting time.Duration
	Switches             uint64
	Began                time.Duration // on the loop's clock
	Whole                bool          // the task began while accounting was on
	Changed              time.Duration // when the present state began, on the loop's clock
}

// Object is something that tasks wait for, such as a lock or a queue.
type Object interface {
	// ProbeObject describes the object.
	ProbeObject() ObjectInfo
}

// ObjectInfo describes a synchronization object.
type ObjectInfo struct {
	ID             uintptr // identifies the object
	Kind           string  // its type: "Mutex"
	Used, Capacity int     // the capacity may be Unlimited
	Known          bool    // Used and Capacity are known
}

// Unlimited is the Capacity of an object that has none.
const Unlimited = -1
