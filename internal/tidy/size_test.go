package tidy_test

import (
	"bytes"
	"maps"
	"testing"
)

// The most lines a file may have. Larger ones are listed with their size, which
// may only shrink.
const (
	mostLines     = 400
	mostTestLines = 400
)

var larger = map[string]int{}

func TestFilesStaySmall(t *testing.T) {
	atRoot(t)
	seen := map[string]bool{}
	for _, s := range sources(t) {
		lines := bytes.Count(s.text, []byte("\n"))
		most := mostLines
		if s.test {
			most = mostTestLines
		}
		listed, ok := larger[s.path]
		seen[s.path] = ok
		switch {
		case ok && lines <= most:
			t.Errorf("%s has %d lines now: take it off the list of larger files", s.path, lines)
		case ok && lines < listed:
			t.Errorf("%s has %d lines now, fewer than the %d listed: list the new size", s.path, lines, listed)
		case ok && lines > listed, !ok && lines > most:
			t.Errorf("%s has %d lines, more than %d: is it one thing?", s.path, lines, max(most, listed))
		}
	}
	for file := range maps.Keys(larger) {
		if !seen[file] {
			t.Errorf("%s is listed as larger but is gone", file)
		}
	}
}
