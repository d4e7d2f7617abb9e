//go:build race

package sim_test

// clientsEach is the number of clients on each of fifty hosts under the race detector, where
// each costs ten times as much.
const clientsEach = 100

// fewer divides the number of seeds under the race detector.
const fewer = 10
