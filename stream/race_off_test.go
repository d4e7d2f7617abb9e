//go:build !race

package stream_test

const (
	manyConns  = 15_000
	shortConns = 50_000
	underRace  = false
)
