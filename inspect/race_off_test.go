//go:build !race

package inspect

const ManyTasks = 100_000 // of a large snapshot
