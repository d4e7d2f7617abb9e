package proctest_test

import (
	"bufio"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/proctest"
	"github.com/spindleloop/spindle/internal/until"
)

// TestKillChild: a process that is no child of this one, like one that got the ID of a child, is
// not killed.
func TestKillChild(t *testing.T) {
	cmd := exec.Command("sh", "-c", "exec 3<&0; cat <&3 & echo $!; wait")
	in, err := cmd.StdinPipe() // cat ends with it
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := cmd.Process.Pid
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if proctest.KillChild(grandchild) || !proctest.Alive(grandchild) {
		t.Error("the child of another process was killed")
	}
	if !proctest.Alive(child) || !proctest.KillChild(child) {
		t.Error("a child was not killed")
	}
	until.Holds(t, func() bool { return !proctest.Alive(child) })
	if proctest.KillChild(child) {
		t.Error("a child that has ended was killed")
	}
	_ = cmd.Wait() // fails: it was killed
	until.Holds(t, func() bool { return !proctest.Alive(grandchild) })
	if proctest.Alive(child) || proctest.KillChild(child) {
		t.Error("a child that was reaped runs")
	}
}
