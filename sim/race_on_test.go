//go:build race

package sim_test

// clientsEach is how many clients each of fifty hosts has under the race
// detector, where each costs ten times as much.
const clientsEach = 100

// fewer is by how much fewer seeds are explored there.
const fewer = 10
