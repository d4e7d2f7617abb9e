package stream_test

import (
	"os"
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(clientsOf); address != "" {
		runClients(address)
		return
	}
	if kind := os.Getenv(echoServerEnv); kind != "" {
		echoServer(kind)
	}
	if os.Getenv(loadAt) != "" {
		load()
		return
	}
	if path := os.Getenv(orphanAt); path != "" {
		orphan(path)
		return
	}
	leak.Main(m)
}
