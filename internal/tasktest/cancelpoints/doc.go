// Package cancelpoints tests cancellation at every point: each program is cancelled at each
// of its waits in turn, and nothing may be left behind. A table has every function that waits.
package cancelpoints
