package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/inspectapi"
)

var recordedURL = regexp.MustCompile(`virtual times, until interrupted: (http://\S+)`)

// TestSimInspectServesTheRunThatFails checks that the page of the run is served until the
// command is interrupted, and that the API has its state at any virtual time.
func TestSimInspectServesTheRunThatFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, to := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- execute(ctx, []string{"sim", "--inspect", "counter"}, to, io.Discard)
		to.Close()
	}()
	lines := bufio.NewScanner(out)
	url := ""
	for url == "" && lines.Scan() {
		if found := recordedURL.FindStringSubmatch(lines.Text()); found != nil {
			url = found[1]
		}
	}
	if url == "" {
		t.Fatal("the address is not printed")
	}
	get := func(path string, into any) string {
		response, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err == nil && into != nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v, %v", path, response.Status, err)
		}
		return string(text)
	}
	if page := get("", nil); !strings.Contains(page, "<html lang=\"en\" data-recorded>") {
		t.Error("the page does not know that it shows a recording")
	}
	var history inspectapi.HistoryAnswer
	get("api/v1/history", &history)
	if len(history.Moments) < 10 || !strings.HasPrefix(history.Title, "counter, seed ") {
		t.Fatalf("%q has %d moments", history.Title, len(history.Moments))
	}
	var tasks inspectapi.TasksAnswer
	get("api/v1/tasks?q=counter.go&at=100000000", &tasks)
	if tasks.Matched == 0 || len(tasks.Loops) < 2 {
		t.Errorf("at 100 ms %d tasks, on %d loops", tasks.Matched, len(tasks.Loops))
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	go io.Copy(io.Discard, out)
	if got := <-code; got != 1 {
		t.Errorf("exit code %d, want 1: a run fails", got)
	}
}

func TestIntervalFor(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: time.Millisecond, time.Second: 2 * time.Millisecond, time.Minute: 100 * time.Millisecond, 24 * time.Hour: 200 * time.Second,
	} {
		if got := intervalFor(took); got != want {
			t.Errorf("a run of %v is recorded every %v, want %v", took, got, want)
		}
	}
}
