//go:build race

package stream_test

// The race detector makes everything ten times slower and larger.
const (
	manyConns  = 2000
	shortConns = 3000
	underRace  = true
)
