package pyapp_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/pyapp"
)

// BenchmarkRequest compares an app that is mounted with the same app served by python -m
// spindle, by the CPU time of the Python process for each request.
func BenchmarkRequest(b *testing.B) {
	b.Run("direct", func(b *testing.B) {
		cmd := exec.Command(python(b), "-m", "spindle", "raw:app", "--port=0", "--no-access-log")
		cmd.Dir = "testdata"
		out, err := cmd.StderrPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
		var address string
		for lines := bufio.NewScanner(out); address == "" && lines.Scan(); {
			address = regexp.MustCompile(`http://[\d.:]+`).FindString(lines.Text())
		}
		measure(b, address, cmd.Process.Pid)
	})
	for name, start := range servers {
		b.Run(name, func(b *testing.B) {
			app := prepare(b, &pyapp.App{Target: "raw:app"})
			if err := app.Start(b.Context()); err != nil {
				b.Fatal(err)
			}
			measure(b, start(b, app), pyapp.Pids(app)[0])
		})
	}
}

// measure makes requests of 64 clients.
func measure(b *testing.B, url string, pid int) {
	c := client(b)
	b.SetParallelism(64)
	before := cpuTime(b, pid)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			res, err := c.Get(url + "/refuse")
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if res.StatusCode != http.StatusForbidden {
				b.Error(res.Status)
			}
		}
	})
	b.ReportMetric((cpuTime(b, pid)-before)*1e6/float64(b.N), "python-µs/op")
}

// cpuTime returns the CPU time of a process in seconds.
func cpuTime(b *testing.B, pid int) float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skip(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
	user, _ := strconv.Atoi(fields[12])
	system, _ := strconv.Atoi(fields[13])
	return float64(user+system) / 100
}
