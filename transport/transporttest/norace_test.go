//go:build !race

package transporttest_test

// underRace is where there is less to play.
const underRace = false
