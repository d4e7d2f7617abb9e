//go:build spindle_python

package main

import "testing"

// TestTokens: C and Go agree on the layout of tokens. The panic says so.
func TestTokens(t *testing.T) { checkTokens() }
