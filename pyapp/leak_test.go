package pyapp_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/proctest"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/pyapp"
)

// TestNothingIsLeft: processes, sockets, goroutines and files of an App end with it, also
// after a crash, a restart and a failed start.
func TestNothingIsLeft(t *testing.T) {
	interpreter := python(t)
	t.Run("before", func(t *testing.T) { // pools are filled, and all of it has ended when memory is measured
		if code, _ := get(t, serve(t, prepare(t, &pyapp.App{Target: "raw:app"}))+"/pid"); code != 200 {
			t.Fatal(code)
		}
	})
	t.Run("after all", func(t *testing.T) {
		leak.Check(t, 4<<20)
		app := &pyapp.App{Dir: "testdata", Target: "raw:app", Workers: 2, Python: interpreter, ErrorLog: slog.New(slog.DiscardHandler)}
		if err := app.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		var pids []int
		note := func() { pids = append(pids, pyapp.Pids(app)...) }
		note()
		url := serve(t, app)
		for _, path := range []string{"/pid", "/large", "/crash", "/pid"} {
			get(t, url+path)
		}
		note()
		if err := app.Restart(t.Context()); err != nil {
			t.Error(err)
		}
		note()
		if err := app.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		for _, pid := range pids {
			if proctest.Alive(pid) {
				t.Error(pid, "is left")
			}
		}
		broken := &pyapp.App{Dir: "testdata", Target: "nothing:app", Python: interpreter, ErrorLog: slog.New(slog.DiscardHandler)}
		if err := broken.Start(t.Context()); err == nil {
			t.Error("nothing was started")
		}
	})
}

// orphanVariable makes the test binary a program that is killed, and orphanTarget names its app.
const (
	orphanVariable = "SPINDLE_TEST_ORPHAN"
	orphanTarget   = "SPINDLE_TEST_ORPHAN_TARGET"
)

func runOrphan() {
	app := &pyapp.App{Dir: "testdata", Target: os.Getenv(orphanTarget), Workers: 2, Python: os.Getenv(orphanVariable)}
	if app.Target == "hangs:app" {
		app.Stderr = os.Stdout // it prints its pid
	}
	if err := app.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pyapp.Pids(app))
	select {}
}

// TestProgramThatIsKilled: its workers end, and remove their sockets.
func TestProgramThatIsKilled(t *testing.T) {
	for name, target := range map[string]string{"running": "raw:app", "starting": "hangs:app", "stopping": "lingers:app"} {
		t.Run(name, func(t *testing.T) { testProgramThatIsKilled(t, target) })
	}
}

func testProgramThatIsKilled(t *testing.T, target string) {
	temporary := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orphanVariable+"="+python(t), orphanTarget+"="+target, "TMPDIR="+temporary)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	for _, text := range strings.Fields(strings.Trim(line, "[]\n")) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(line)
		}
		until.Holds(t, func() bool { return !proctest.Alive(pid) })
	}
	until.Holds(t, func() bool {
		left, err := filepath.Glob(filepath.Join(temporary, "*"))
		return len(left) == 0 && err == nil
	})
}
