package http2

import "golang.org/x/net/http2/hpack"

// Shared is what the connections of one goroutine share: their configuration, and what a
// connection needs only while it decodes a header.
type Shared struct {
	config Config
	head   Header
	data   []byte                  // of the last Data
	emit   func(hpack.HeaderField) // the method head.add, made once
}

// NewShared returns a Shared for connections with that configuration.
func NewShared(config Config) *Shared {
	sh := &Shared{config: config.withDefaults()}
	sh.emit = sh.add
	return sh
}
