//go:build race

package relaysim_test

// fewer divides the number of seeds under the race detector.
const fewer = 20
