//go:build linux

// Package proc starts processes on chosen cores and reads their CPU time and resident
// memory.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime returns the user and system time that all threads of process pid and of its descendants have
// used so far. It reads their CPU clocks, which count nanoseconds. /proc/PID/stat counts
// ticks of 10 ms, too coarse for a window of a second.
func CPUTime(pid int) (total time.Duration, err error) {
	var ts unix.Timespec
	// The ID of another process's CPU clock, as in clock_getcpuclockid(3):
	// CPUCLOCK_SCHED (2), for the process and not one thread.
	clock := int32(^pid<<3 | 2)
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("proc: CPU clock of process %d: %w", pid, err)
	}
	total = time.Duration(ts.Nano())
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range threads {
		children, _ := os.ReadFile(file) // the thread may have ended
		for _, child := range strings.Fields(string(children)) {
			n, err := strconv.Atoi(child)
			if err != nil {
				return 0, err
			}
			if used, err := CPUTime(n); err == nil { // otherwise it has ended
				total += used
			}
		}
	}
	return total, nil
}

// RSS returns the resident memory of process pid in bytes.
//
// It reads Rss from smaps_rollup, which walks the page tables and is exact. VmRSS comes
// from counters that the kernel batches per thread and core. Pss would be wrong here: all
// servers written in Go are one binary, so a server's share of its text pages would
// change when another one starts or ends.
func RSS(pid int) (int64, error) {
	name := fmt.Sprintf("/proc/%d/smaps_rollup", pid)
	data, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	return parseRSS(name, data)
}

func parseRSS(name string, data []byte) (int64, error) {
	for line := range bytes.Lines(data) {
		fields := bytes.Fields(line)
		if len(fields) == 3 && string(fields[0]) == "Rss:" && string(fields[2]) == "kB" {
			kb, err := strconv.ParseInt(string(fields[1]), 10, 64)
			return kb * 1024, err
		}
	}
	return 0, fmt.Errorf("proc: %s has no Rss", name)
}

// Settle waits until process pid is idle: three times in a row it used less than 1 % of
// the time between two samples. A server that has just answered may still collect
// garbage. After limit, Settle returns without an error: a server that is never idle is
// measured as it is.
func Settle(pid int, limit time.Duration) error {
	const interval = 20 * time.Millisecond
	deadline := time.Now().Add(limit)
	last, err := CPUTime(pid)
	if err != nil {
		return err
	}
	for quiet := 0; quiet < 3 && time.Now().Before(deadline); {
		time.Sleep(interval)
		now, err := CPUTime(pid)
		if err != nil {
			return err
		}
		if now-last < interval/100 {
			quiet++
		} else {
			quiet = 0
		}
		last = now
	}
	return nil
}

// RaiseFileLimit raises the soft limit of open files to the hard limit and returns it.
// Child processes inherit it.
func RaiseFileLimit() (int, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, err
	}
	if l.Cur < l.Max {
		l.Cur = l.Max
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
			return 0, err
		}
	}
	return int(l.Cur), nil
}
