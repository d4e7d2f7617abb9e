package transport

import "github.com/spindleloop/spindle/internal/loopcore"

// Handshakes is the pool of TLS handshakes.
func Handshakes() *loopcore.Pool { return &handshakes }
