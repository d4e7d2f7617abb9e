//go:build !race

package stream_test

const (
	manyConns  = 6000
	shortConns = 50_000
	underRace  = false
)
