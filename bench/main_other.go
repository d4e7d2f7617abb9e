//go:build !linux

// Command bench compares Spindle with its peers. It needs Linux: the load
// generator is written on epoll, and CPU time is read from Linux's clocks.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: needs Linux")
	os.Exit(2)
}
