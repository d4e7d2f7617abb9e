package web_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/short"
)

func TestMain(m *testing.M) {
	short.Parallel()
	leak.Main(m)
}
