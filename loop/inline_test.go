package loop_test

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// hotCalls are the functions that a callback, a switch between tasks or a Read makes, each as
// the compiler names it, which it must inline. The packages are of this module.
var hotCalls = map[string][]string{
	"loop": {
		"(*Loop).Internal", "(*Loop).CallSoon", "(*Loop).Owns", "(*Loop).only", "(*Loop).ready", "(*Loop).pollMayBeDue", "(*Loop).pollDue",
		"(*internals).Kernel", "(*internals).Only", "(*internals).Foreign", "(*internals).SetOwner", "(*internals).TurnTime",
		"(*internals).FreeWaits", "(*internals).TakeCoroutine", "(*internals).ResumeSoon", "(*internals).Scheduler",
		"(*lane).at", "(*lane).full", "(*lane).append", "(*lane).take", "(*watches).at", "(*identity).Load", "(*identity).Store",
	},
	"internal/coro": {"Of", "(*Scheduler).Caller", "(*Scheduler).mark", "(*Scheduler).switchTo", "(*Coro).TakeBudget", "Waker.Pass"},
}

// TestHotCallsAreInlined reads the compiler's decisions.
func TestHotCallsAreInlined(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("numbers of 64 bits cost more on this processor, and the compiler decides by cost")
	}
	for pkg, names := range hotCalls {
		path := "github.com/spindleloop/spindle/" + pkg
		said, err := exec.Command("go", "build", "-gcflags="+path+"=-m", path).CombinedOutput()
		if err != nil {
			t.Fatalf("go build %s: %v\n%s", pkg, err, said)
		}
		for _, name := range names {
			if !strings.Contains(string(said), ": can inline "+name+"\n") && !strings.Contains(string(said), ": can inline "+name+" ") {
				t.Errorf("%s: the compiler cannot inline %s", pkg, name)
			}
		}
	}
}
