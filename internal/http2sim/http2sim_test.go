package http2sim_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/http2sim"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/sim"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestStreams explores the world: no stream gets stuck, and no request is lost.
func TestStreams(t *testing.T) { sim.Explore(t, short.Of(40), http2sim.Streams) }
