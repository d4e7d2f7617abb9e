package inspect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/loop"
)

// A program serves its inspector on a loop of its own, and asks it here for its tasks.
func ExampleServe() {
	s, err := inspect.Serve("127.0.0.1:0", inspect.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	options := spindle.Options{Loop: loop.Options{Name: "orders"}}
	err = options.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "worker"}, func(ctx context.Context) error {
				return spindle.Sleep(ctx, time.Hour)
			})
			tasks, err := spindle.Blocking(ctx, func() ([]inspect.Task, error) {
				return ask("http://" + s.Addr().String() + "/api/v1/tasks?sort=tree&q=worker")
			})
			for _, t := range tasks {
				fmt.Printf("%*s%s: %s %s\n", 2*t.Depth, "", t.Name, t.State, t.WaitsFor)
			}
			n.Scope().Cancel(nil)
			return err
		})
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// main: waiting Blocking
	//   worker: waiting Sleep
}

// ask asks an inspector for tasks.
func ask(url string) ([]inspect.Task, error) {
	res, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	var answer struct{ Tasks []inspect.Task }
	err = json.NewDecoder(res.Body).Decode(&answer)
	return answer.Tasks, err
}
