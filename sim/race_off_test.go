//go:build !race

package sim_test

// clientsEach is the number of clients on each of fifty hosts: 50,000 together.
const clientsEach = 1000

const fewer = 1
