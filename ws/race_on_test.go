//go:build race

package ws_test

const underRace = true
