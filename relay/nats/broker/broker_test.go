package broker_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/relay/nats/broker"
)

// TestServerThatCannotStart: Start fails with the reason, and does not wait until its limit of
// a minute.
func TestServerThatCannotStart(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		o    broker.Options
		want []string
	}{
		"a taken port":          {broker.Options{Address: ln.Addr().String()}, []string{ln.Addr().String(), "address already in use"}},
		"a file as a directory": {broker.Options{Dir: file}, []string{"s1", "not a directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			b, err := broker.Start(c.o)
			if err == nil {
				b.Close()
				t.Fatal("the server has started")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error %q lacks %q", err, part)
				}
			}
			if d := time.Since(began); d > 50*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}
