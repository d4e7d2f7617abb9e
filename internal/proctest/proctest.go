// Package proctest checks and kills processes in tests.
package proctest

import (
	"fmt"
	"os"
	"strings"
)

// Alive reports whether a process runs. One that nothing has reaped yet does not.
func Alive(pid int) bool {
	state, _ := stat(pid)
	return state != "" && state != "Z"
}

// KillChild kills a child of this process, and reports whether it ran. The system may have given
// the ID of a child that has ended to another process, which KillChild does not kill.
func KillChild(pid int) bool {
	p, err := os.FindProcess(pid) // on Linux this process, even if the ID is used again
	if err != nil {
		return false
	}
	defer p.Release()
	state, parent := stat(pid)
	return state != "" && state != "Z" && parent == os.Getpid() && p.Kill() == nil
}

// stat returns the state of a process, "" if there is none, and the ID of its parent.
func stat(pid int) (state string, parent int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0
	}
	fields := string(text[strings.LastIndexByte(string(text), ')')+1:]) // the name of the program may have any character
	if _, err := fmt.Sscan(fields, &state, &parent); err != nil {
		return "", 0
	}
	return state, parent
}
