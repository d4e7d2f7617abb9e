//go:build race

package transport_test

// underRace is where large numbers are made smaller.
const underRace = true
