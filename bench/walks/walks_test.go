package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// tableRow is a row of a walk in ARCHITECTURE.md: its number, a function, and its file.
var tableRow = regexp.MustCompile("(?m)^\\| \\d+ \\| `([\\w.]+)`.* \\| `([\\w/.]+\\.go)` \\|$")

// loops are functions of the tables that are not called again for each byte: a loop in them goes on.
var loops = map[string]bool{"Coro.main": true, "service.pull": true}

// tables are the sections of ARCHITECTURE.md and the walks that they describe.
var tables = map[string]string{
	"A byte, from readiness to stream.Read":       "a byte to stream.Read",
	"A byte, from readiness to an inline handler": "a request to an inline handler and back",
	"A relay call over NATS":                      "a call of a task over NATS and back",
}

// TestTheTablesAreOnTheWalks: the program runs each function that ARCHITECTURE.md lists.
func TestTheTablesAreOnTheWalks(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: compiles everything with counters")
	}
	cmd := exec.Command("go", "run", "-cover", "-covermode=atomic", "-coverpkg="+module+"...", "./walks", "-list")
	cmd.Dir = ".."
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for section := range strings.SplitSeq(string(text), "\n## ") {
		title, _, _ := strings.Cut(section, "\n")
		name := tables[title]
		if name == "" {
			continue
		}
		_, walk, found := strings.Cut(string(out), name+": ")
		if !found {
			t.Fatalf("no walk %q in\n%s", name, out)
		}
		walk, _, _ = strings.Cut(walk, "\na ") // the next one
		for _, row := range tableRow.FindAllStringSubmatch(section, -1) {
			checked++
			called := regexp.MustCompile(`(?m)[ .]` + regexp.QuoteMeta(row[1]) + ` +` + regexp.QuoteMeta(row[2]) + `$`)
			if !loops[row[1]] && !called.MatchString(walk) {
				t.Errorf("%s: %s of %s is not called", title, row[1], row[2])
			}
		}
	}
	if checked < 50 {
		t.Errorf("found only %d rows", checked)
	}
}
