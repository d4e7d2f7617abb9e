package picture

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spindleloop/spindle/internal/simkernel"
)

// Page is a run, for a page in HTML.
type Page struct {
	Title  string
	Hosts  []string // the lanes, from the left
	Trace  []simkernel.Event
	Ending string // the error, "" for a run that has not failed

	Repeat  string   // the command that runs it again
	Faults  []string // what the failure needs: faults and amounts
	Senders []string // the task that has sent each event of Trace, or ""; may be nil
	Tasks   []Tasks  // at the end
	Passing []Run    // runs that do not fail; the nearest one is compared
}

// Tasks are the tasks of a host, as text.
type Tasks struct{ Host, Text string }

//go:embed page.html
var pageHTML string

// maxOnPage limits the events of a drawing. The list below it has all.
const maxOnPage = 1000

type row struct {
	At, Host, Task, Kind, Text string
}

// Write writes the page. It needs no other file and no network.
func (p Page) Write(out io.Writer) error {
	trace := Decode(p.Trace)
	data := struct {
		Title, Ending, Repeat string
		Faults                []string
		Nearest               string `json:",omitempty"` // the name of the run that is compared
		Difference            *Difference
		Story                 []Sentence
		Rows                  []row
		Tasks                 []Tasks
		Drawn                 int // the first event that is drawn, from 0
	}{Title: p.Title, Ending: p.Ending, Repeat: p.Repeat, Faults: p.Faults, Story: Story(trace), Tasks: p.Tasks}
	runs := make([]Run, len(p.Passing))
	for i, run := range p.Passing {
		runs[i] = Run{run.Name, Decode(run.Trace)}
	}
	if i := Nearest(trace, runs); i >= 0 {
		d := Compare(trace, runs[i].Trace)
		data.Nearest, data.Difference = runs[i].Name, &d
	}
	for i, e := range trace {
		r := row{At: showTime(e.At), Host: e.From, Kind: e.Kind, Text: line(e)}
		if i < len(p.Senders) {
			r.Task = p.Senders[i]
		}
		data.Rows = append(data.Rows, r)
	}
	data.Drawn = max(0, len(trace)-maxOnPage)
	encoded, err := json.Marshal(data) // it escapes <, > and &
	if err != nil {
		return err
	}
	drawn := trace[data.Drawn:]
	numbers := make([]int, len(drawn))
	for i := range numbers {
		numbers[i] = data.Drawn + i + 1
	}
	full, err := p.draw(drawn, numbers)
	if err != nil {
		return err
	}
	folded, index := Fold(drawn)
	for i, n := range index {
		index[i] = data.Drawn + n + 1
		if n < 0 {
			index[i] = 0
		}
	}
	short, err := p.draw(folded, index)
	if err != nil {
		return err
	}
	_, err = strings.NewReplacer("{{title}}", escape(p.Title), "{{data}}", string(encoded), "{{full}}", full, "{{folded}}", short).WriteString(out, pageHTML)
	return err
}

// draw returns the picture of events. The page has the title and the ending itself.
func (p Page) draw(events []simkernel.Event, numbers []int) (string, error) {
	var b strings.Builder
	title := ""
	if len(events) < len(p.Trace) && len(numbers) > 0 && numbers[0] > 1 {
		title = fmt.Sprintf("events %d to %d", numbers[0], len(p.Trace))
	}
	err := Draw(&b, Picture{Title: title, Hosts: p.Hosts, Trace: events, Numbers: numbers})
	return b.String(), err
}
