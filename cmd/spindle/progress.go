package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// progress is a progress bar with the name of the present stage. It draws only on a
// terminal, and only when called: a bar that moved by itself would disturb measurements.
type progress struct {
	w     io.Writer // nil draws nothing
	total int       // steps of the whole run
	past  int       // steps of the stages before this one
	stage string
	steps int // of this stage
	at    int // in this stage
}

const barWidth = 30

func newProgress(w io.Writer, total int) progress {
	if f, ok := w.(*os.File); !ok || !isTerminal(f) {
		w = nil
	}
	return progress{w: w, total: total}
}

// begin ends the present stage, even if steps are missing, and starts the next.
func (p *progress) begin(stage string, steps int) {
	p.past += p.steps
	p.stage, p.steps, p.at = stage, steps, 0
	p.draw()
}

func (p *progress) step() {
	p.draw()
	p.at = min(p.at+1, p.steps)
}

func (p *progress) draw() {
	if p.w == nil {
		return
	}
	done := (p.past + p.at) * barWidth / p.total
	fmt.Fprintf(p.w, "\r%s%s %s\x1b[K", strings.Repeat("█", done), strings.Repeat("░", barWidth-done), p.stage)
}

// erase removes the bar.
func (p *progress) erase() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
