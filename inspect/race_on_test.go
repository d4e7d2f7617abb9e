//go:build race

package inspect_test

// manyTasks is how many tasks a large snapshot has. With the race detector each takes ten
// times as long.
const manyTasks = 20_000
