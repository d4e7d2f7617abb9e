// Http2 compares HTTP/2 servers under h2load: requests for each second of the server's CPU.
//
//	go run ./http2 -rounds 5 -clients 32 -streams 16
//	go run ./http2 -path /large -streams 4 -requests 500
//
// Every server is a process of its own with one loop, or one Go processor. Rounds are
// interleaved, and each ratio is that of neighbours in time.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
)

var (
	serveAs  = flag.String("serve", "", "serve as this server; for the processes that are measured")
	rounds   = flag.Int("rounds", 5, "how often each server is measured")
	clients  = flag.Int("clients", 32, "connections")
	streams  = flag.Int("streams", 16, "requests at the same time on each")
	requests = flag.Int("requests", 100_000, "requests in a round")
	path     = flag.String("path", "/", "/ answers Hello, World!, /large 1 MB, /upload takes 1 MB")
	secure   = flag.Bool("tls", false, "over TLS")
	only     = flag.String("servers", "net/http,goroutine,inline,lean", "which servers")
)

func main() {
	flag.Parse()
	if *serveAs != "" {
		fmt.Fprintln(os.Stderr, serve(*serveAs))
		os.Exit(1)
	}
	if err := compare(strings.Split(*only, ",")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var large = make([]byte, 1<<20)

var answer = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/large":
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Write(large)
	case "/upload":
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	default:
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "Hello, World!")
	}
})

// serve runs a server. It prints its address.
func serve(kind string) error {
	var config *tls.Config
	if *secure {
		made := httptest.NewUnstartedServer(nil)
		made.StartTLS()
		config = &tls.Config{Certificates: made.TLS.Certificates, NextProtos: []string{"h2"}}
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	if kind == "net/http" {
		runtime.GOMAXPROCS(1)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println(ln.Addr())
		s := &http.Server{Handler: answer, Protocols: protocols, TLSConfig: config}
		if *secure {
			return s.ServeTLS(ln, "", "")
		}
		return s.Serve(ln)
	}
	s := &web.Server{Protocols: protocols, TLS: config}
	switch kind {
	case "goroutine":
		s.Handler = answer
	case "inline":
		s.Handler = web.Inline(answer)
	case "lean":
		s.Lean = func(c *web.LeanCtx) bool {
			if string(c.Path()) == "/large" {
				c.Write(large)
				return true
			}
			c.SetContentType("text/plain")
			c.WriteString("Hello, World!")
			return true
		}
	default:
		return fmt.Errorf("unknown server %q", kind)
	}
	runtime.GOMAXPROCS(1)
	l, err := loop.New(loop.Options{Watchdog: -1})
	if err != nil {
		return err
	}
	sv, err := s.Listen(l, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(sv.Addr())
	return l.Run(context.Background())
}

// server is a process that is measured.
type server struct {
	kind string
	cmd  *exec.Cmd
	addr string
	rate []float64 // requests for each second of CPU
}

func compare(kinds []string) error {
	var all []*server
	for _, kind := range kinds {
		s, err := begin(kind)
		if err != nil {
			return err
		}
		defer s.end()
		all = append(all, s)
	}
	for range *rounds {
		for _, s := range all {
			if err := s.measure(); err != nil {
				return err
			}
		}
	}
	for _, s := range all {
		var ratios []float64
		for i, r := range s.rate {
			ratios = append(ratios, r/all[0].rate[i])
		}
		slices.Sort(ratios)
		slices.Sort(s.rate)
		fmt.Printf("%-10s %9.0f requests per CPU-second, %5.2f × %s (%.2f to %.2f)\n", s.kind, s.rate[len(s.rate)/2],
			ratios[len(ratios)/2], all[0].kind, ratios[0], ratios[len(ratios)-1])
	}
	return nil
}

func begin(kind string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{kind: kind, cmd: exec.Command(self, "-serve", kind, "-tls="+strconv.FormatBool(*secure))}
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	s.addr = strings.TrimSpace(line)
	return s, err
}

func (s *server) end() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

var succeeded = regexp.MustCompile(`(\d+) succeeded`)

// measure runs h2load once.
func (s *server) measure() error {
	scheme := "http"
	if *secure {
		scheme = "https"
	}
	args := []string{"-n", strconv.Itoa(*requests), "-c", strconv.Itoa(*clients), "-m", strconv.Itoa(*streams), scheme + "://" + s.addr + *path}
	if *path == "/upload" {
		body, err := os.CreateTemp("", "body")
		if err != nil {
			return err
		}
		defer os.Remove(body.Name())
		body.Write(large)
		body.Close()
		args = append([]string{"-d", body.Name()}, args...)
	}
	before := s.cpu()
	out, err := exec.Command("h2load", args...).CombinedOutput()
	took := s.cpu() - before
	if err != nil {
		return fmt.Errorf("h2load: %w\n%s", err, out)
	}
	found := succeeded.FindSubmatch(out)
	if found == nil || string(found[1]) != strconv.Itoa(*requests) {
		return fmt.Errorf("%s: not all requests succeeded\n%s", s.kind, out)
	}
	s.rate = append(s.rate, float64(*requests)/took)
	return nil
}

// cpu returns the seconds of CPU that the server has used.
func (s *server) cpu() float64 {
	var total float64
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.cmd.Process.Pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", s.cmd.Process.Pid, task.Name()))
		if fields := strings.Fields(string(text)); len(fields) > 0 {
			ns, _ := strconv.ParseFloat(fields[0], 64)
			total += ns / 1e9
		}
	}
	return total
}
