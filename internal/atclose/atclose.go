// Package atclose says what Close of a loop does with a callback, or with a job of a worker,
// that has not run by then.
package atclose

// Kind is what Close does.
type Kind uint8

const (
	// Report reports the callback in the error of Close. The callbacks and jobs of
	// users are of this kind.
	Report Kind = iota
	// Drop drops the callback. It is for a sender that notices the end through Done, or
	// with the end of the object that the callback serves.
	Drop
	// Run runs the callback during Close, while the loop can still be used. It is for a
	// receiver that must be notified in any case. A job cannot be of this kind, because
	// Close does not wait for jobs.
	Run
)
