//go:build race

package short

// UnderRace reports whether the race detector is on, which makes everything ten times slower and larger.
const UnderRace = true
