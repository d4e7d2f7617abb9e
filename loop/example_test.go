package loop_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// Callbacks run one after another, and timers when they are due.
func Example() {
	l, err := loop.New(loop.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	l.CallLater(time.Millisecond, func() { fmt.Println("one millisecond later") })
	l.CallLater(2*time.Millisecond, func() {
		fmt.Println("two milliseconds later")
		l.Stop()
	})
	l.CallSoon(func() { fmt.Println("soon") })
	fmt.Println("first")
	if err := l.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// first
	// soon
	// one millisecond later
	// two milliseconds later
}

// A reader is called whenever there is data to read.
func ExampleLoop_AddReader() {
	l, _ := loop.New(loop.Options{})
	defer l.Close()
	r, w, _ := os.Pipe()
	defer r.Close()
	fd := int(r.Fd()) // Fd makes it blocking; a loop needs it non-blocking
	syscall.SetNonblock(fd, true)
	l.AddReader(fd, func() {
		buf := make([]byte, 64)
		n, err := syscall.Read(fd, buf)
		if err != nil || n == 0 {
			fmt.Println("the end")
			l.RemoveReader(fd)
			l.Stop()
			return
		}
		fmt.Printf("read %q\n", buf[:n])
		w.Close()
	})
	l.CallSoon(func() { w.WriteString("hello") })
	l.Run(context.Background())
	// Output:
	// read "hello"
	// the end
}

// Other goroutines reach a loop with Post. State that only callbacks use needs no lock.
func ExampleLoop_Post() {
	l, _ := loop.New(loop.Options{})
	defer l.Close()
	sum, left := 0, 4
	for i := range 4 {
		go func() {
			l.Post(func() {
				sum += i
				if left--; left == 0 {
					l.Stop()
				}
			})
		}()
	}
	l.Run(context.Background())
	fmt.Println(sum)
	// Output: 6
}

// Work that would block the loop runs on a goroutine, and its result returns to the loop.
func ExampleOffload() {
	l, _ := loop.New(loop.Options{})
	defer l.Close()
	loop.Offload(l, func() (string, error) {
		text, err := os.ReadFile("example_test.go") // files block
		return string(text), err
	}, func(text string, err error) {
		fmt.Println(strings.HasPrefix(text, "package"), err)
		l.Stop()
	})
	l.Run(context.Background())
	// Output: true <nil>
}

// A host with its own event loop steps Spindle's.
func ExampleLoop_Poll() {
	l, _ := loop.New(loop.Options{})
	defer l.Close()
	done := false
	l.CallLater(time.Millisecond, func() { fmt.Println("timer"); done = true })
	for !done {
		if _, err := l.Poll(time.Second); err != nil {
			fmt.Println(err)
			return
		}
		for _, p := range l.Pending() {
			p.Run()
		}
	}
	// Output: timer
}

// A group is a number of independent loops, usually one per core.
func ExampleGroup() {
	g, _ := loop.NewGroup(2, loop.Options{})
	defer g.Close()
	g.Go(func(l *loop.Loop) {
		fmt.Println("on the least loaded loop")
		l.CallLater(time.Millisecond, g.Stop)
	})
	g.Run(context.Background())
	// Output: on the least loaded loop
}
