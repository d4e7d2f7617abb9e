package coro

import "context"

// Helper, as the Values of a task's options, marks a task that a package of this module starts
// in a nursery of its user: the task does not count against the nursery's limit, and begins
// even if the nursery is full. Context takes the place of Values, and may be nil.
type Helper struct{ context.Context }
