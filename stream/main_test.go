package stream_test

import (
	"os"
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(echoServerEnv); kind != "" {
		echoServer(kind)
	}
	leak.Main(m)
}
