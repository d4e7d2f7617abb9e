package inspect_test

import (
	"testing"

	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(detaching{m}) }

// detaching turns accounting off after the tests.
type detaching struct{ *testing.M }

func (m detaching) Run() int {
	defer inspect.Detach()
	return m.M.Run()
}
