// Package workers names the pools of a loop's workers.
package workers

// Pool is a group of workers besides a loop's own. Each loop that uses it has workers of its
// own for it. See spindle.Pool.
type Pool struct {
	Name  string
	Limit int // the most workers on each loop; zero or less means as many as the loop's own
}

// Counts are the numbers of a pool on a loop.
type Counts struct {
	Pool       string // its name; "" for the loop's own
	Limit      int    // the most workers
	Busy       int    // workers that exist
	Queued     int    // jobs that no worker has begun
	Unfinished int    // jobs that are not delivered
	Delivered  uint64
}
