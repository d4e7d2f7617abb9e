// Package coro runs tasks on coroutines, in the order of a loop. It knows nothing of
// scopes, nurseries and cancellation: package spindle builds those on top, and gives this
// package a Body for each task.
//
// # States
//
// A task is fresh until a coroutine takes it, then in the state of that coroutine, and
// finished when its Body.Run has returned. A coroutine runs many tasks:
//
//	            Start                            ┌─────────┐
//	(new task) ───────▶ fresh                    │  Ready  │◀──────────┐
//	                      │                      └────┬────┘           │
//	                      │ its turn; or at once,     │ its turn       │ Wake, End, Abort;
//	                      │ by RunNested              ▼                │ Yield without a wait
//	┌────────┐   takes    │                      ┌─────────┐      ┌────┴────┐
//	│  Idle  │────────────┴─────────────────────▶│ Running │─────▶│ Waiting │
//	└────────┘                                   └──┬───┬──┘ Leave└─────────┘
//	 ▲  │                                           │   │
//	 │  │ ends with the last run                    │   │ Goexit: the coroutine ends
//	 │  ▼                                           │   ▼ with its task
//	 │ (end)◀── the pool is full ──┐                │ (end)
//	 │                             │                │
//	 └─────────────────────────────┴────────────────┘
//	          Body.Run has returned: the coroutine runs the next fresh
//	          task if that is next in the loop; otherwise it is idle,
//	          and kept in the pool for reuse
//
// # Control
//
// Three kinds of goroutines pass control to each other. Only one of them executes at any
// time, and it is the owner of the loop:
//
//   - the driver runs the loop: the goroutine of loop.Run, or of a step;
//   - a coroutine runs a task;
//   - base is the goroutine that continues when nothing else may. It is the driver, or
//     during a nested start (RunNested) the coroutine or driver that called it.
//
// The switches are:
//
//	driver    → coroutine   the loop resumes a coroutine, or starts a fresh task
//	coroutine → coroutine   the next entry of the loop's lane is a task
//	coroutine → itself      the next entry is its own
//	coroutine → base        the next entry is a callback, or there is none, or a
//	                        nested start is under way
//	any       → coroutine   RunNested: the caller is base until that coroutine waits or ends
//
// # Ends
//
// In direct mode a coroutine switches to any other by calling the switch of the pull in
// which that one is suspended, so goroutines are suspended in each other's pulls. When
// the function of a coroutine returns, package iter continues the goroutine in the
// coroutine's own pull, and that may not be the one that is next. So:
//
//   - Return. Scheduler.exited is set, and the goroutine that continues finds it so
//     (takeOver): it becomes the running one, and if it is not its turn it switches on to
//     the goroutine that is next (switchAway, regain).
//   - Goexit. Package iter would make a goroutine exit that is in the pull by next. So
//     another coroutine first takes the place of that goroutine (stepAside), and the
//     exiting one ends when takeOver continues it.
//   - Panic. Body.Run recovers it. A panic in the loop's own callbacks is the loop's.
//
// In portable mode, which every Go version allows, base resumes each coroutine by next
// and the coroutine yields to base, even if another coroutine is due: base resumes that
// one then. Return needs nothing. Goexit: the coroutine yields once more from its last
// deferred function, and a goroutine made for that resumes it and exits with it
// (finishExit).
//
// Every switch happens under the thread lock that the coroutine was made under; see
// threads.go and design 006. Design 009 explains the direct switch, and design 020 when it
// is used.
package coro
