package probe

import "time"

// Host is a program that steps a loop with RunOnce and runs callbacks of its own between
// two steps, such as an event loop of Python. To an inspector they are one loop. Any
// goroutine may call its method.
type Host interface {
	// HostState returns what the host is doing.
	HostState() HostState
}

// HostState is what a host is doing.
type HostState struct {
	Idle    bool          // it does not step the loop at present
	Waiting bool          // in a step, for the kernel
	For     time.Duration // how long its current callback has run
	Task    string        // of a callback that blocks the loop, if that is known; so are At and Stack
	At      string        // the innermost line of Stack
	Stack   string
}

// BlockedTurn is a turn of a loop that took too long.
type BlockedTurn struct {
	At      time.Time     // when it was noticed
	For     time.Duration // how long it has lasted
	Ended   bool          // For is final
	Starved bool          // the loop got too little CPU
	Task    string        // that was running; "" for a callback
	Stack   []byte
	Line    string // the innermost one of the program; "" if Stack, which is of Go, says it
}
