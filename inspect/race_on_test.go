//go:build race

package inspect

// ManyTasks is how many tasks a large snapshot has. With the race detector each takes ten
// times as long.
const ManyTasks = 20_000
