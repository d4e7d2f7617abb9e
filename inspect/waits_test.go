package inspect_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/inspect"
)

// Two tasks lock two mutexes in opposite orders. The guide shows this program.
func TestDeadlockOfTwoMutexesIsACycle(t *testing.T) {
	deadlocks(t, "mutexes", func(ctx context.Context, n *spindle.Nursery) {
		var a, b cosync.Mutex
		lock := func(first, second *cosync.Mutex) func(context.Context) error {
			return func(ctx context.Context) error {
				if err := first.Lock(ctx); err != nil {
					return err
				}
				defer first.Unlock()
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
				if err := second.Lock(ctx); err != nil {
					return err
				}
				defer second.Unlock()
				return nil
			}
		}
		n.GoWith(spindle.TaskOptions{Name: "transfer A to B"}, lock(&a, &b))
		n.GoWith(spindle.TaskOptions{Name: "transfer B to A"}, lock(&b, &a))
	}, "transfer A to B", "transfer B to A", "Mutex", "Mutex")
}

// A task holds a mutex while it joins a nursery with a child that needs the mutex.
func TestDeadlockOfMutexAndNurseryIsACycle(t *testing.T) {
	deadlocks(t, "nursery", func(ctx context.Context, n *spindle.Nursery) {
		var mu cosync.Mutex
		n.GoWith(spindle.TaskOptions{Name: "parent"}, func(ctx context.Context) error {
			if err := mu.Lock(ctx); err != nil {
				return err
			}
			defer mu.Unlock()
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.GoWith(spindle.TaskOptions{Name: "child"}, func(ctx context.Context) error {
					if err := mu.Lock(ctx); err != nil {
						return err
					}
					mu.Unlock()
					return nil
				})
				return nil
			})
		})
	}, "parent", "child", "Mutex")
}

// deadlocks starts tasks that deadlock, and checks that the API shows a cycle with exactly
// the nodes of these names. Their names are those of tasks, or kinds of objects.
func deadlocks(t *testing.T, name string, start func(context.Context, *spindle.Nursery), names ...string) {
	t.Helper()
	run(t, name, func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			start(ctx, n)
			outside(func() {
				id := loopNamed(t, name).ID
				var a inspect.WaitsAnswer
				for len(a.Cycles) == 0 { // the tasks need some turns
					a = get[inspect.WaitsAnswer](t, inspect.Options{}, "/api/v1/waits?loop="+id)
				}
				inCycle := []string{}
				for _, n := range a.Nodes {
					if n.Cycle {
						inCycle = append(inCycle, n.Name)
					}
				}
				slices.Sort(inCycle)
				slices.Sort(names)
				if !slices.Equal(inCycle, names) || len(a.Cycles) != 1 || len(a.Cycles[0]) != len(names) {
					t.Errorf("the cycles are %v, their nodes %q, among edges %+v", a.Cycles, inCycle, a.Edges)
				}
				var tasks []inspect.Task
				until(func() bool {
					tasks = get[inspect.TasksAnswer](t, inspect.Options{}, "/api/v1/tasks?loop="+id).Tasks
					return hasTask(tasks, names[len(names)-1])
				})
				if task := taskNamed(t, tasks, names[len(names)-1]); !task.Cycle {
					t.Errorf("the task is %+v", task)
				}
			})
			n.Scope().Cancel(nil)
			return nil
		})
	})
}

func TestSynchronizationObjectsShowTheirWaiters(t *testing.T) {
	run(t, "objects", func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			sem := cosync.NewSemaphore(1)
			queue := cosync.NewQueue[int](3)
			limit := cosync.NewLimiter(1)
			n.GoWith(spindle.TaskOptions{Name: "holder"}, func(ctx context.Context) error {
				if err := limit.Acquire(ctx); err != nil {
					return err
				}
				if err := sem.Acquire(ctx); err != nil {
					return err
				}
				return spindle.Sleep(ctx, time.Hour)
			})
			for range 3 {
				n.Go(sem.Acquire)
				n.Go(limit.Acquire)
				n.Go(func(ctx context.Context) error {
					_, err := queue.Get(ctx)
					return err
				})
			}
			outside(func() {
				var a inspect.SyncAnswer
				until(func() bool {
					a = get[inspect.SyncAnswer](t, inspect.Options{}, "/api/v1/sync?loop="+loopNamed(t, "objects").ID)
					all := 0
					for _, o := range a.Objects {
						all += o.Waiting
					}
					return all == 9
				})
				for _, kind := range []string{"Semaphore", "Queue", "Limiter"} {
					i := slices.IndexFunc(a.Objects, func(o inspect.SyncObject) bool { return o.Kind == kind })
					if i < 0 || a.Objects[i].Waiting != 3 || len(a.Objects[i].Waiters) != 3 {
						t.Errorf("no %s with three waiters in %+v", kind, a.Objects)
						continue
					}
					if o := a.Objects[i]; kind == "Limiter" && (len(o.Holders) != 1 || *o.Used != 1 || *o.Capacity != 1) {
						t.Errorf("the limiter is %+v", o)
					}
				}
			})
			n.Scope().Cancel(nil)
			return nil
		})
	})
}
