//go:build race

package transporttest_test

// underRace reduces the number of runs under the race detector.
const underRace = true
