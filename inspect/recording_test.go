package inspect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

// recordedWorld runs a world of two hosts for a minute and returns its recording.
func recordedWorld(t *testing.T) *inspect.Recording {
	t.Helper()
	w := sim.NewWorld(1)
	w.InspectEvery = time.Second
	w.Host("server").Serve(func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", ":80")
		if err != nil {
			return err
		}
		return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
			_, err := c.Read(make([]byte, 1))
			return err
		})
	})
	w.Host("client").Go(func(ctx context.Context) error {
		if err := spindle.Sleep(ctx, 20*time.Second); err != nil {
			return err
		}
		c, err := stream.Dial(ctx, "tcp", "server:80")
		if err != nil {
			return err
		}
		defer c.Close()
		return spindle.Sleep(ctx, 40*time.Second)
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	return w.Recording()
}

// ofRecording asks the handler of a recording.
func ofRecording[T any](t *testing.T, h http.Handler, path string) (answer T, status int) {
	t.Helper()
	r := httptest.NewRequest("GET", "http://localhost/api/v1/"+path, nil)
	r.RemoteAddr = "127.0.0.1:1000"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s: %v in %s", path, err, w.Body)
	}
	return answer, w.Code
}

// TestRecordingAnswersAsOfATime checks that each path of the API has the state of the time at=.
func TestRecordingAnswersAsOfATime(t *testing.T) {
	h := inspect.Handler(inspect.Options{Recording: recordedWorld(t)})
	history, _ := ofRecording[inspectapi.HistoryAnswer](t, h, "history")
	if n := len(history.Moments); n != 61 && n != 62 || len(history.Moments[0].Loops) != 2 {
		t.Errorf("%d moments, the first one %+v", n, history.Moments[0])
	}
	for at, sockets := range map[string]int{"0": 1, "19000000000": 1, "25500000000": 3} {
		a, _ := ofRecording[inspectapi.SocketsAnswer](t, h, "sockets?at="+at)
		if a.Total != sockets {
			t.Errorf("at %s ns there are %d sockets, want %d: %+v", at, a.Total, sockets, a.Sockets)
		}
	}
	peers, _ := ofRecording[inspectapi.SocketsAnswer](t, h, "sockets?at=30000000000&q=stream&loop=1")
	if peers.Total != 2 || peers.Matched != 1 || peers.Sockets[0].AgeNS == nil || time.Duration(*peers.Sockets[0].AgeNS) != 9*time.Second {
		t.Errorf("the server's connection after ten seconds: %+v", peers)
	}
	tasks, _ := ofRecording[inspectapi.TasksAnswer](t, h, "tasks?sort=tree&at=30000000000&loop=1")
	if tasks.Total != 2 || tasks.Tasks[1].Depth != 1 || tasks.Tasks[1].WaitsFor == "" {
		t.Errorf("the server's tasks: %+v", tasks.Tasks)
	}
	loops, _ := ofRecording[inspectapi.LoopsAnswer](t, h, "loops")
	if got := loops.TakenAt.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); got < time.Minute || got > time.Minute+time.Second {
		t.Errorf("without at= the answer is of %v, not of the end", got)
	}
	for path, want := range map[string]int{
		"stack?task=1.1": 404, "events": 404, "profile?seconds=1": 404, "nothing": 404, "tasks?at=-1": 400, "tasks?at=x": 400,
		"waits?loop=1": 200, "requests": 200, "sync": 200, "ended": 200, "blocked": 200, "snapshot?at=5": 200,
	} {
		if _, status := ofRecording[map[string]any](t, h, path); status != want {
			t.Errorf("%s: status %d, want %d", path, status, want)
		}
	}
	r := httptest.NewRequest("GET", "http://localhost/metrics", nil)
	r.RemoteAddr = "127.0.0.1:1000"
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 404 {
		t.Errorf("metrics of a recording: status %d", w.Code)
	}
}

// TestTasksOfSeveralLoopsAreSortedByAge: the order is not one loop after the other.
func TestTasksOfSeveralLoopsAreSortedByAge(t *testing.T) {
	w := sim.NewWorld(1)
	w.InspectEvery = time.Second
	for i, host := range []string{"even", "odd"} {
		w.Host(host).Go(func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				if err := spindle.Sleep(ctx, time.Duration(i)*time.Second); err != nil {
					return err
				}
				for second := i; second < 6; second += 2 {
					n.GoWith(spindle.TaskOptions{Name: fmt.Sprintf("task %d", second)}, func(ctx context.Context) error {
						return spindle.Sleep(ctx, time.Minute)
					})
					if err := spindle.Sleep(ctx, 2*time.Second); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	h := inspect.Handler(inspect.Options{Recording: w.Recording()})
	for sort, want := range map[string][]string{
		"age":  {"task 5", "task 4", "task 3", "task 2", "task 1", "task 0"},
		"-age": {"task 0", "task 1", "task 2", "task 3", "task 4", "task 5"},
	} {
		var got []string
		a, _ := ofRecording[inspectapi.TasksAnswer](t, h, "tasks?at=30000000000&q=task+&sort="+sort)
		for _, task := range a.Tasks {
			got = append(got, task.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("sort=%s: %v, want %v", sort, got, want)
		}
	}
}

func TestRecordingWithoutSnapshotsPanics(t *testing.T) {
	defer func() {
		if recover() != "inspect: Options.Recording has no snapshots" {
			t.Error("no panic")
		}
	}()
	inspect.Handler(inspect.Options{Recording: &inspect.Recording{}})
}
