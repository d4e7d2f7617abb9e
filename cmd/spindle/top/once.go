package top

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spindleloop/spindle/cmd/spindle/numbers"
	"github.com/spindleloop/spindle/internal/inspectapi"
)

// onceWidth is the width of tables that are not for a terminal.
const onceWidth = 120

// JSON prints a snapshot as the inspector gives it.
func JSON(ctx context.Context, c *Client, out io.Writer) error {
	text, err := c.Raw(ctx, "snapshot", nil)
	if err != nil {
		return err
	}
	_, err = out.Write(append([]byte(strings.TrimSpace(string(text))), '\n'))
	return err
}

// sampleTime is over what time rates are measured. It is longer than what the inspector
// requires.
const sampleTime = 500 * time.Millisecond

// Once prints tables of loops, tasks and blocked turns. It asks for the loops twice: the rates
// in the first answer are those since an inspector asked before, which may be long ago.
func Once(ctx context.Context, c *Client, sort string, tasks int, out io.Writer) error {
	var loops inspectapi.LoopsAnswer
	var rows inspectapi.TasksAnswer
	var blocked inspectapi.BlockedAnswer
	params := url.Values{"sort": {sort}, "limit": {strconv.Itoa(tasks)}}
	if err := c.Get(ctx, "loops", nil, &loops); err != nil {
		return err
	}
	passed := time.NewTimer(sampleTime)
	defer passed.Stop()
	select {
	case <-passed.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	loops = inspectapi.LoopsAnswer{}
	for _, part := range []struct {
		name   string
		params url.Values
		answer any
	}{{"loops", nil, &loops}, {"tasks", params, &rows}, {"blocked", nil, &blocked}} {
		if err := c.Get(ctx, part.name, part.params, part.answer); err != nil {
			return err
		}
	}
	var b strings.Builder
	print := func(line string) { b.WriteString(strings.TrimRight(line, " ") + "\n") }
	print(loops.TakenAt.Local().Format("2006-01-02 15:04:05") + "  " + clean(processLine(&loops.Header)))
	print("")
	t := loopTable(onceWidth)
	print(t.head())
	for i := range loops.Loops {
		l := &loops.Loops[i]
		print(t.line(loopRow(l, len(t.columns))...))
		if stuck(l) {
			print(clean(whereOf(l)))
			for _, line := range stackLines(l.Stack) {
				print("    " + clean(line))
			}
		}
		if pools, _ := poolsOf(l); pools != "" {
			print(pools)
		}
	}
	print("")
	t = taskTable(onceWidth)
	print(t.head())
	for i := range rows.Tasks {
		print(t.line(taskRow(&rows.Tasks[i], true, sort == "tree")...))
	}
	if rows.Total == 0 {
		print(noTasks(&rows))
	}
	if n := rows.Matched - len(rows.Tasks); n > 0 {
		print(fmt.Sprintf("and %s more", numbers.Thousands(n)))
	}
	if len(blocked.Blocked) > 0 {
		print("")
		print("BLOCKED TURNS")
	}
	for i := range blocked.Blocked {
		print(clean(blockedLine(&blocked.Blocked[i])))
		for _, line := range stackLines(blocked.Blocked[i].Stack) {
			print("    " + clean(line))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
