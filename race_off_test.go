//go:build !race

package spindle_test

// waves of a thousand tasks are a million.
const waves = 1000
