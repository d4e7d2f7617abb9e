//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"

	"github.com/spindleloop/spindle/internal/report"
)

var walk = regexp.MustCompile(`(?m)^(.+): (\d+) functions in (\d+) files, (\d+) calls$`)

// runWalks builds ./walks with counters of all blocks, and runs it. It counts, so one round is enough.
func runWalks(h *harness) ([]report.Section, error) {
	cmd := exec.CommandContext(h.ctx, "go", "run", "-cover", "-covermode=atomic", "-coverpkg=github.com/spindleloop/spindle/...", "./walks")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("walks: %w\n%s", err, out)
	}
	var t report.Tally
	var names []string
	for _, found := range walk.FindAllStringSubmatch(string(out), -1) {
		var figures [3]float64
		for i := range figures {
			if figures[i], err = strconv.ParseFloat(found[2+i], 64); err != nil {
				return nil, err
			}
		}
		names = append(names, found[1])
		t.Add(found[1], false, figures[:]...)
	}
	return []report.Section{{
		Name: "walks", Title: "Walks", Note: "Functions of this module that run once or more for each of many bytes, requests or calls.",
		Columns: []report.Column{
			{Name: "functions", Unit: report.Bytes, Better: report.Lower},
			{Name: "files", Unit: report.Bytes, Better: report.Lower},
			{Name: "calls", Unit: report.Bytes, Better: report.Lower},
		},
		Rows: t.Rows(names),
	}}, nil
}
