//go:build !linux

// Command bench compares Spindle with its peers. It needs Linux: the load generator
// uses epoll, and CPU times come from Linux's process clocks.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: needs Linux")
	os.Exit(2)
}
