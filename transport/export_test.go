package transport

import "github.com/spindleloop/spindle/internal/workers"

// ErrUnsent is the error of Detach and StartTLS while bytes are unsent.
var ErrUnsent = errUnsent

// Handshakes is the pool of TLS handshakes.
func Handshakes() *workers.Pool { return &handshakes }
