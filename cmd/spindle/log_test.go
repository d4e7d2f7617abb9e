package main

import (
	"bytes"
	"regexp"
	"testing"
)

// TestLogKeepsTheLinesOfAStack checks a message of several lines: the first is printed with
// the attributes, the others unquoted.
func TestLogKeepsTheLinesOfAStack(t *testing.T) {
	var out bytes.Buffer
	log := newTerminalLog(&out).With("server", 1).WithGroup("g")
	log.Error("web: handler panicked: no\n\ngoroutine 7 [running]:\nmain.f()\n\t/src/main.go:3 +0x1\n", "remote", "127.0.0.1:2")
	log.Info("one line")
	want := regexp.MustCompile(`^time=\S+ level=ERROR msg="web: handler panicked: no" server=1 g.remote=127.0.0.1:2
goroutine 7 \[running\]:
main.f\(\)
	/src/main.go:3 \+0x1
time=\S+ level=INFO msg="one line" server=1
$`)
	if !want.MatchString(out.String()) {
		t.Errorf("it prints\n%s", &out)
	}
}
