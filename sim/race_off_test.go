//go:build !race

package sim_test

// clientsEach is how many clients each of fifty hosts has: 50,000 together.
const clientsEach = 1000

const fewer = 1
