package pyapp_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/proctest"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/pyapp"
)

// TestCrashUnderLoad kills a worker with -9. Only requests that it has fail, with 502, and
// others are served at once.
func TestCrashUnderLoad(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "raw:app", Workers: 2})
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	url := serve(t, app)
	const clients = 8
	var good, bad atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range clients {
		c := client(t)
		wg.Go(func() {
			for !stop.Load() {
				var res *http.Response
				var err error
				if i%2 == 0 {
					res, err = c.Get(url + "/pid")
				} else {
					res, err = c.Post(url+"/pid", "text/plain", strings.NewReader("some text"))
				}
				if err != nil {
					t.Error(err)
					return
				}
				_, err = io.ReadAll(res.Body)
				res.Body.Close()
				switch {
				case err != nil:
					t.Error(err)
				case res.StatusCode == 200:
					good.Add(1)
				case res.StatusCode == 502:
					bad.Add(1)
				default:
					t.Error(res.Status)
					return
				}
			}
		})
	}
	const kills = 3
	for range kills {
		until.Holds(t, func() bool { return len(pyapp.Pids(app)) == 2 })
		before := good.Load()
		until.Holds(t, func() bool { return good.Load() > before+100 })
		if !proctest.KillChild(pyapp.Pids(app)[0]) {
			t.Error("a worker has ended before it was killed")
		}
		before = good.Load()
		until.Holds(t, func() bool { return good.Load() > before+100 })
	}
	stop.Store(true)
	wg.Wait()
	if n := bad.Load(); n > kills*clients {
		t.Errorf("%d requests failed, %d were served", n, good.Load())
	}
}

func TestRequestThatCrashes(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "raw:app"})
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			url := start(t, app)
			_, first := get(t, url+"/pid")
			if code, text := get(t, url+"/crash"); code != http.StatusBadGateway {
				t.Error(code, text)
			}
			if code, second := get(t, url+"/pid"); code != 200 || second == first { // it waits for a new worker
				t.Error(code, first, second)
			}
			res, err := client(t).Get(url + "/half")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if _, err := io.ReadFull(res.Body, make([]byte, 4)); err != nil {
				t.Fatal(err)
			}
			happen(t, app, "half was read")
			if rest, err := io.ReadAll(res.Body); err == nil {
				t.Errorf("half a response looks whole: %q", rest)
			}
		})
	}
}

// TestCrashDuringAnUpload: the client gets 502 while it has more of the body to send.
func TestCrashDuringAnUpload(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "raw:app"})
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			r, w := io.Pipe()
			defer w.Close()
			defer time.AfterFunc(limit, func() { w.Close() }).Stop() // a client that gets no response waits for it
			go io.WriteString(w, "the beginning")
			res, err := client(t).Post(start(t, app)+"/crash", "text/plain", r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusBadGateway {
				t.Error(res.Status)
			}
		})
	}
}

func TestCallThatCrashes(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	if _, err := pyapp.Call[any](t.Context(), app, "functions:crash"); !errors.Is(err, pyapp.ErrCrashed) {
		t.Error(err)
	}
	if pid, err := pyapp.Call[int](t.Context(), app, "functions:pid"); err != nil || !proctest.Alive(pid) {
		t.Error(pid, err)
	}
}

// TestWorkerThatHasServedEnough is replaced before it ends, and no request fails.
func TestWorkerThatHasServedEnough(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "raw:app", Args: []string{"--limit-max-requests=20"}})
	url := serve(t, app)
	pids := map[string]bool{}
	until.Holds(t, func() bool {
		code, text := get(t, url+"/pid")
		if _, err := strconv.Atoi(text); err != nil || code != 200 {
			t.Fatal(code, text)
		}
		pids[text] = true
		return len(pids) == 3
	})
}

// notices counts the lines of a log.
type notices struct{ n atomic.Int64 }

func (c *notices) Write(p []byte) (int, error) {
	c.n.Add(1)
	return len(p), nil
}

// TestWorkerThatCannotBeReplaced serves until its code can start again.
func TestWorkerThatCannotBeReplaced(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "raw.py")
	good, err := os.ReadFile(filepath.Join("testdata", "raw.py"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(text []byte) {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(good)
	var failures notices
	app := prepare(t, &pyapp.App{Dir: dir, Target: "raw:app", Args: []string{"--limit-max-requests=3"},
		ErrorLog: slog.New(slog.NewTextHandler(&failures, nil))})
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	write([]byte("broken("))
	url := serve(t, app)
	_, first := get(t, url+"/pid")
	until.Holds(t, func() bool {
		if code, pid := get(t, url+"/pid"); code != 200 || pid != first {
			t.Fatal(code, pid)
		}
		return failures.n.Load() > 0
	})
	write(good)
	until.Holds(t, func() bool {
		code, pid := get(t, url+"/pid")
		return code == 200 && pid != first
	})
}
