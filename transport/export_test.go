package transport

import "github.com/spindleloop/spindle/internal/workers"

// Handshakes is the pool of TLS handshakes.
func Handshakes() *workers.Pool { return &handshakes }
