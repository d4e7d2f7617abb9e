package inspect_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/until"
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

// A task that reads wants to write: it waits for itself.
func TestUpgradeOfRWMutexIsACycle(t *testing.T) {
	deadlocks(t, "upgrade", func(ctx context.Context, n *spindle.Nursery) {
		var mu cosync.RWMutex
		n.GoWith(spindle.TaskOptions{Name: "upgrade"}, func(ctx context.Context) error {
			if err := mu.RLock(ctx); err != nil {
				return err
			}
			defer mu.RUnlock()
			if err := mu.Lock(ctx); err != nil {
				return err
			}
			mu.Unlock()
			return nil
		})
	}, "upgrade", "RWMutex")
}

// A reader that has given the lock up does not hold it, even if another task did that for
// it.
func TestReadersOfRWMutexAreThoseThatHoldIt(t *testing.T) {
	named := func(name string) spindle.TaskOptions { return spindle.TaskOptions{Name: name} }
	run(t, "readers", func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var mu cosync.RWMutex
			reader := func(ctx context.Context) error {
				if err := mu.RLock(ctx); err != nil {
					return err
				}
				return forever(ctx)
			}
			n.GoWith(named("reader 1"), reader)
			n.GoWith(named("past reader"), func(ctx context.Context) error {
				if err := mu.RLock(ctx); err != nil {
					return err
				}
				mu.RUnlock()
				return forever(ctx)
			})
			n.GoWith(named("reader 2"), reader)
			n.GoWith(named("writer"), mu.Lock)
			holders := func(want ...string) {
				outside(func() {
					var objects []inspectapi.SyncObject
					until.Tried(func() bool {
						objects = get[inspectapi.SyncAnswer](t, inspect.Options{}, "/api/v1/sync?loop="+loopNamed(t, "readers").ID).Objects
						return len(objects) == 1 && slices.Equal(objects[0].HolderNames, want)
					})
					if len(objects) != 1 || !slices.Equal(objects[0].HolderNames, want) || objects[0].Capacity != nil {
						t.Errorf("want the holders %q: %+v", want, objects)
					}
				})
			}
			holders("reader 1", "reader 2")
			mu.RUnlock() // for any of them
			holders()
			n.Scope().Cancel(nil)
			return nil
		})
	})
}

// A cycle is told in words. A deadline in it ends it.
func TestCycleIsToldInWords(t *testing.T) {
	run(t, "words", func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var a, b cosync.Mutex
			lock := func(first, second *cosync.Mutex) func(context.Context) error {
				return func(ctx context.Context) error {
					if err := first.Lock(ctx); err != nil {
						return err
					}
					if err := spindle.Yield(ctx); err != nil {
						return err
					}
					return second.Lock(ctx)
				}
			}
			n.GoWith(spindle.TaskOptions{Name: "there"}, lock(&a, &b))
			n.GoWith(spindle.TaskOptions{Name: "back"}, func(ctx context.Context) error {
				_, err := spindle.MoveOnAfter(ctx, time.Hour, lock(&b, &a))
				return err
			})
			outside(func() {
				var a inspectapi.WaitsAnswer
				until.Tried(func() bool {
					a = get[inspectapi.WaitsAnswer](t, inspect.Options{}, "/api/v1/waits?loop="+loopNamed(t, "words").ID)
					return len(a.Cycles) == 1
				})
				const want = "there waits for Mutex 1, held by back, which waits for Mutex 2, held by there"
				if len(a.CycleDetails) != 1 || a.CycleDetails[0].Text != want {
					t.Fatalf("it says %+v, want %q", a.CycleDetails, want)
				}
				if left := a.CycleDetails[0].DeadlineLeftNS; left == nil || *left <= 0 || *left > int64(time.Hour) {
					t.Errorf("it ends in %v", left)
				}
			})
			n.Scope().Cancel(nil)
			return nil
		})
	})
}

// TestObjectsKeepTheirNames has a channel without a buffer and a queue without a limit. They
// have the same names in each answer.
func TestObjectsKeepTheirNames(t *testing.T) {
	run(t, "names", func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			tx, _ := cosync.NewChannel[int](0)
			queue := cosync.NewQueue[int](math.MaxInt)
			n.GoWith(spindle.TaskOptions{Name: "sender"}, func(ctx context.Context) error { return tx.Send(ctx, 1) })
			n.GoWith(spindle.TaskOptions{Name: "getter"}, func(ctx context.Context) error { _, err := queue.Get(ctx); return err })
			outside(func() {
				byKind := map[string]inspectapi.SyncObject{}
				for range 3 {
					until.Tried(func() bool {
						for _, o := range get[inspectapi.SyncAnswer](t, inspect.Options{}, "/api/v1/sync?loop="+loopNamed(t, "names").ID).Objects {
							if known, ok := byKind[o.Kind]; ok && known.Name != o.Name {
								t.Errorf("%s becomes %s", known.Name, o.Name)
							}
							byKind[o.Kind] = o
						}
						return len(byKind) == 2
					})
				}
				channel, queue := byKind["Channel"], byKind["Queue"]
				if channel.Name != "Channel 1" || queue.Name != "Queue 2" || !slices.Equal(channel.WaiterNames, []string{"sender"}) {
					t.Errorf("the objects are %+v", byKind)
				}
				if channel.Capacity == nil || *channel.Capacity != 0 {
					t.Errorf("the capacity of the channel is %v, want 0", channel.Capacity)
				}
				if queue.Capacity != nil || queue.Used == nil {
					t.Errorf("the queue is %+v, want no capacity", queue)
				}
			})
			n.Scope().Cancel(nil)
			return nil
		})
	})
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
				var a inspectapi.WaitsAnswer
				for len(a.Cycles) == 0 { // the tasks need some turns
					a = get[inspectapi.WaitsAnswer](t, inspect.Options{}, "/api/v1/waits?loop="+id)
				}
				inCycle := []string{}
				for _, n := range a.Nodes {
					switch {
					case n.Cycle && n.Kind == "task":
						inCycle = append(inCycle, n.Name)
					case n.Cycle:
						inCycle = append(inCycle, n.Kind)
					}
				}
				slices.Sort(inCycle)
				slices.Sort(names)
				if !slices.Equal(inCycle, names) || len(a.Cycles) != 1 || len(a.Cycles[0]) != len(names) {
					t.Errorf("the cycles are %v, their nodes %q, among edges %+v", a.Cycles, inCycle, a.Edges)
				}
				var tasks []inspectapi.Task
				until.Tried(func() bool {
					tasks = get[inspectapi.TasksAnswer](t, inspect.Options{}, "/api/v1/tasks?loop="+id).Tasks
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
				var a inspectapi.SyncAnswer
				until.Tried(func() bool {
					a = get[inspectapi.SyncAnswer](t, inspect.Options{}, "/api/v1/sync?loop="+loopNamed(t, "objects").ID)
					all := 0
					for _, o := range a.Objects {
						all += o.Waiting
					}
					return all == 9
				})
				for _, kind := range []string{"Semaphore", "Queue", "Limiter"} {
					i := slices.IndexFunc(a.Objects, func(o inspectapi.SyncObject) bool { return o.Kind == kind })
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
