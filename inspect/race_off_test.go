//go:build !race

package inspect_test

const manyTasks = 100_000 // of a large snapshot
