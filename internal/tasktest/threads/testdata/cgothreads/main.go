// Command cgothreads runs one case of thread locks by callbacks from C, and prints what
// happened. TestThreadLocksOfC builds and runs it: package spindle itself needs no cgo.
package main

/*
#cgo LDFLAGS: -pthread
#include <pthread.h>

extern void goCallback(void);

static inline void callGo(void) { goCallback(); }

static void *threadMain(void *times) {
	for (long i = (long)times; i > 0; i--) goCallback();
	return 0;
}

// onThread calls Go from a thread of C's, and waits for it.
static inline void onThread(long times) {
	pthread_t thread;
	pthread_create(&thread, 0, threadMain, (void *)times);
	pthread_join(thread, 0);
}
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

var callback func()

//export goCallback
func goCallback() { callback() }

// throughC calls fn from C.
func throughC(fn func()) {
	callback = fn
	C.callGo()
}

// onThreadOfC calls fn n times from a new thread of C's.
func onThreadOfC(n int, fn func()) {
	callback = fn
	C.onThread(C.long(n))
}

func main() {
	defer func() {
		if v := recover(); v != nil {
			fmt.Println("outcome:", v)
		}
	}()
	if err := cases[os.Args[1]](); err != nil {
		fmt.Println("outcome:", err)
		return
	}
	fmt.Println("outcome: goes on")
}

// inTask runs a task in which C calls fn.
func inTask(fn func(ctx context.Context) error) func() error {
	return func() error {
		return spindle.Run(context.Background(), func(ctx context.Context) (err error) {
			throughC(func() { err = fn(ctx) })
			return errors.Join(err, spindle.Yield(ctx))
		})
	}
}

var cases = map[string]func() error{
	"c-task-waits": inTask(func(ctx context.Context) error { return spindle.Yield(ctx) }),
	"c-task-waits-locked": inTask(func(ctx context.Context) error {
		runtime.LockOSThread()
		return spindle.Yield(ctx)
	}),
	"c-task-recovers": inTask(func(ctx context.Context) error {
		defer func() { recover() }()
		return spindle.Yield(ctx)
	}),
	"c-task-starts": inTask(func(ctx context.Context) error {
		spindle.RootNursery(ctx).Go(spindle.Yield)
		return nil
	}),
	"c-task-starts-eagerly": inTask(func(ctx context.Context) error {
		spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Eager: true}, spindle.Yield)
		return nil
	}),
	"c-task-opens-nursery": inTask(func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
			n.Go(spindle.Yield)
			return nil
		})
	}),
	"c-task-exits": func() error {
		outcome := make(chan error, 1)
		go func() {
			defer func() { outcome <- errors.New("the caller of Run exits too") }() // unless Run returns
			outcome <- inTask(func(ctx context.Context) error {
				runtime.Goexit()
				return nil
			})()
		}()
		return <-outcome
	},
	"c-callback-starts-eagerly": func() error {
		return spindle.Run(context.Background(), func(ctx context.Context) error {
			spindle.LoopOf(ctx).CallSoon(func() {
				throughC(func() {
					spindle.RootNursery(ctx).GoWith(spindle.TaskOptions{Eager: true}, spindle.Yield)
				})
			})
			return errors.Join(spindle.Yield(ctx), spindle.Yield(ctx))
		})
	},
	"c-steps": func() error {
		runtime.LockOSThread() // or each call could be on another thread
		return stepped(func(step func()) {
			for range 50 {
				throughC(step)
			}
		})
	},
	"c-steps-then-go-steps": func() error {
		runtime.LockOSThread()
		return stepped(func(step func()) {
			throughC(step)
			step()
			for range 50 {
				throughC(step)
			}
		})
	},
	"c-thread-steps": func() error { return stepped(func(step func()) { onThreadOfC(50, step) }) },
	"c-another-thread-steps": func() error {
		return stepped(func(step func()) {
			onThreadOfC(50, func() {
				step()
				callback = func() { // from the second call on
					inner := make(chan struct{})
					go func() { runtime.LockOSThread(); step(); close(inner) }()
					<-inner
					callback = step
				}
			})
		})
	},
}

// stepped has a loop stepped by steps until its tasks have ended. It returns what any
// step or task failed with.
func stepped(steps func(step func())) error {
	l, err := loop.New(loop.Options{})
	if err != nil {
		return err
	}
	ended := errors.New("the tasks have not ended")
	spindle.RunOn(context.Background(), l, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for range 3 {
				n.Go(func(ctx context.Context) error {
					for range 5 {
						if err := spindle.Yield(ctx); err != nil {
							return err
						}
					}
					return nil
				})
			}
			return nil
		})
	}, func(err error) { ended = err })
	var failed error
	steps(func() {
		if _, err := l.RunOnce(0); err != nil && failed == nil {
			failed = err
		}
	})
	return errors.Join(ended, failed)
}
