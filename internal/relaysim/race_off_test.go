//go:build !race

package relaysim_test

const fewer = 1
