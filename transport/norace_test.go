//go:build !race

package transport_test

// underRace reduces large numbers under the race detector.
const underRace = false
