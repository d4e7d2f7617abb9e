// Package spindle runs tasks on an event loop: straight-line code that pauses
// where it waits, many on one thread, with the safety of structured concurrency.
//
//	err := spindle.Run(ctx, func(ctx context.Context) error {
//		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
//			n.Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Second) })
//			n.Go(func(ctx context.Context) error { return serve(ctx) })
//			return nil
//		}) // returns when both have ended
//	})
//
// # Tasks
//
// A task is a function that runs on the loop's goroutine, one at a time. It gives
// up control only where it waits, so that state shared by tasks of one loop needs
// no lock. In return it must not block the goroutine: blocking calls go through
// Blocking. Any call that takes a context may switch to another task, even when it
// could complete at once. So may reading and writing connections, although their
// methods take no context. No other call does.
//
// A task belongs to a nursery, and WithNursery does not return before its tasks
// have ended. So no task is forgotten, and the caller gets the error or panic of a task.
// The first failure cancels the other tasks.
//
// # Cancellation
//
// The context that a task gets is a *Scope. When a scope is cancelled, or its deadline
// passes, every wait inside it fails with a *Canceled that names the scope, until the
// code has left the scope. The scope absorbs its own cancellation and no other.
// MoveOnAfter, FailAfter, Grace and Shield are scopes for common needs. For the standard
// library a scope is a context like its own.
//
// # Ending
//
// A run is cancelled when its context ends, when the function given to Run has returned, or
// when a task fails. Its tasks then have time to end:
//
//	a task that                        is made to exit
//	asked for nothing                  Options.Grace after the run was cancelled
//	is inside Grace(ctx, d, fn)        Options.Grace after d, or after fn has returned
//	is inside Shield only              Options.Grace after the run was cancelled
//	owns a nursery                     not before the tasks of the nursery
//
// So the longest time that a task asks for is honoured, and the whole takes no longer than
// that and Options.Grace. A web.Server that drains in a task asks in the same way.
//
// # Options
//
// Run, RunOn and RunGroup with options are methods of Options: Options{Trace: true}.Run(ctx, fn).
// Nursery.GoWith and SpawnWith take TaskOptions before the function to run. The zero options are
// those of the shorter name.
//
// # Which goroutine
//
// Waiting functions are for tasks; nurseries, scopes and futures may also be used
// by callbacks of the same loop. From other goroutines use CallOn, or the
// loop's Post. A call from the wrong goroutine panics and says so.
package spindle
