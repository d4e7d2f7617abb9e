//go:build !race

package behaviour_test

// waves of a thousand tasks are a million.
const waves = 1000
