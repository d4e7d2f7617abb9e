package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spindleloop/spindle/internal/inspectapi"
)

// Live shows the program on a terminal until ctx ends or the user quits. It asks once in an
// interval.
func Live(ctx context.Context, c *Client, interval time.Duration, in *os.File, out *os.File) error {
	term, err := openTerminal(in, out)
	if err != nil {
		return err
	}
	defer term.restore()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &screen{mono: os.Getenv("NO_COLOR") != ""}
	s.width, s.height = term.size()
	s.load(ctx, c)
	keys := readKeys(ctx, in)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		s.width, s.height = term.size()
		if _, err := io.WriteString(out, s.draw()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if !s.paused {
				s.load(ctx, c)
			}
		case <-term.resized:
		case text, ok := <-keys:
			if !ok {
				return nil
			}
			for _, k := range keysOf(text) {
				switch s.press(k) {
				case quit:
					return nil
				case reload:
					s.load(ctx, c)
				}
			}
		}
	}
}

// readKeys sends what the terminal sends, until it ends. The goroutine stays in a read when
// ctx ends; the command ends then too.
func readKeys(ctx context.Context, in io.Reader) <-chan string {
	keys := make(chan string)
	go func() {
		defer close(keys)
		buf := make([]byte, 256)
		for {
			n, err := in.Read(buf)
			if err != nil {
				return
			}
			select {
			case keys <- string(buf[:n]):
			case <-ctx.Done():
				return
			}
		}
	}()
	return keys
}

// load asks for what the screen shows. If that fails, the screen keeps what it has and
// says why.
func (s *screen) load(ctx context.Context, c *Client) {
	err := get(ctx, c, "loops", nil, &s.loops)
	if err == nil {
		s.answer = time.Now()
		err = s.loadView(ctx, c)
	}
	s.problem = ""
	if err != nil && ctx.Err() == nil {
		s.problem = clean(fmt.Sprintf("no answer from %s: %v", c.base.Host, err))
	}
}

func (s *screen) loadView(ctx context.Context, c *Client) error {
	switch s.view {
	case viewBlocked:
		return get(ctx, c, "blocked", nil, &s.blocked)
	case viewTask:
		return s.loadTask(ctx, c)
	}
	// One page of rows around the chosen one.
	limit := max(50, 3*s.height)
	params := url.Values{"sort": {orders[s.order].sort}, "limit": {strconv.Itoa(limit)}, "offset": {strconv.Itoa(max(0, s.chosen-limit/2))}}
	if s.filter != "" {
		params.Set("q", s.filter)
	}
	return get(ctx, c, "tasks", params, &s.tasks)
}

// loadTask asks for the row and the stack of the task that is shown.
func (s *screen) loadTask(ctx context.Context, c *Client) error {
	var found inspectapi.TasksAnswer
	if err := get(ctx, c, "tasks", url.Values{"q": {s.task.ID}, "sort": {"id"}, "limit": {"50"}}, &found); err != nil {
		return err
	}
	here := false
	for i := range found.Tasks {
		if found.Tasks[i].ID == s.task.ID {
			s.task, here = found.Tasks[i], true
		}
	}
	if !here {
		s.task.State = "ended"
		return nil
	}
	err := get(ctx, c, "stack", url.Values{"task": {s.task.ID}}, &s.stack)
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusNotFound {
		s.task.State = "ended"
		return nil
	}
	return err
}

// get replaces an answer by a new one. Fields that the new one lacks do not stay.
func get[T any](ctx context.Context, c *Client, name string, params url.Values, answer *T) error {
	var fresh T
	if err := c.Get(ctx, name, params, &fresh); err != nil {
		return err
	}
	*answer = fresh
	return nil
}
