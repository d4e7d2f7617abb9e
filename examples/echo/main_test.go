package main

import (
	"testing"

	"github.com/spindleloop/spindle/examples/internal/servertest"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestEcho(t *testing.T) {
	servertest.Echo(t, func(t *testing.T) string { return servertest.Listen(t, run) })
}
