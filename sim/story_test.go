package sim_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/sim"
)

// TestReplayCommandIsQuoted lets a shell run the replay command of tests with unusual names,
// with a program in place of go test. Package testing matches their names with its pattern.
func TestReplayCommandIsQuoted(t *testing.T) {
	short.Computes(t)
	for _, name := range []string{"plain", "retry(3)+loss", "it's", "$HOME", "[a", "a|b", "a.b", `a\b`, `"`} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(childSays) != "" {
				t.Log("the replay runs with", os.Getenv("SPINDLE_FAULTS"))
				return
			}
			w := sim.NewWorld(7)
			w.Amount("small clients", 3)
			command := sim.ReplayCommand(w, t.Name())
			before, after, _ := strings.Cut(command, "go test -count=1 ")
			_, after, _ = strings.Cut(after, "-run ")        // behind the tags, if there are some
			pattern := after[:strings.LastIndex(after, " ")] // without the package
			cmd := exec.CommandContext(t.Context(), "sh", "-c", before+`"$PROGRAM" -test.v -test.run `+pattern)
			cmd.Env = append(os.Environ(), childSays+"=1", "PROGRAM="+os.Args[0])
			text, err := cmd.CombinedOutput()
			if err != nil || strings.Count(string(text), "the replay runs with small clients=3") != 1 {
				t.Errorf("%s: %v\n%s", command, err, text)
			}
		})
	}
}
