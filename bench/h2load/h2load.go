// Package h2load compares HTTP/2 servers under the load of h2load: requests for each second of
// the server's CPU time.
//
// Every server is a process of its own. Rounds are interleaved, and each ratio is that of
// neighbours in time.
package h2load

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Load is what h2load sends.
type Load struct {
	Rounds   int
	Clients  int // connections
	Streams  int // requests at the same time on each
	Requests int // in a round
	Path     string
	TLS      bool
	Body     []byte // nil for GET
	Header   []string
	Profiles string // a folder for CPU profiles of the servers; none if it is empty
}

// Flags defines the flags that all commands have.
func (l *Load) Flags() {
	flag.IntVar(&l.Rounds, "rounds", 5, "how often each server is measured")
	flag.IntVar(&l.Clients, "clients", 32, "connections")
	flag.IntVar(&l.Streams, "streams", 16, "requests at the same time on each")
	flag.IntVar(&l.Requests, "requests", 100_000, "requests in a round")
	flag.BoolVar(&l.TLS, "tls", false, "over TLS")
	flag.StringVar(&l.Profiles, "profiles", "", "write CPU profiles of the servers to this folder")
}

// Announcement precedes the address in the line that a server prints when it is ready.
const Announcement = "listening on "

// Server is a server to measure. Its command prints a line with Announcement.
type Server struct {
	Name    string
	Command []string

	cmd  *exec.Cmd
	addr string
	rate []float64 // requests for each second of CPU, of each round
}

// Compare measures the servers and prints a line for each. Check, if it is not nil, is called
// with the address of each server before.
func Compare(servers []*Server, l Load, check func(addr string) error) error {
	for _, s := range servers {
		if err := s.start(); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		defer s.end()
		if check == nil {
			continue
		}
		if err := check(s.addr); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	for range l.Rounds {
		for _, s := range servers {
			if err := s.measure(l); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		}
	}
	for _, s := range servers {
		s.print(servers[0])
	}
	return nil
}

// Serving runs the server while use does.
func (s *Server) Serving(use func(addr string, pid int) error) error {
	if err := s.start(); err != nil {
		return err
	}
	defer s.end()
	return use(s.addr, s.cmd.Process.Pid)
}

func (s *Server) print(reference *Server) {
	ratios := make([]float64, len(s.rate))
	for i, r := range s.rate {
		ratios[i] = r / reference.rate[i]
	}
	slices.Sort(ratios)
	fmt.Printf("%-16s %9.0f requests per CPU-second, %5.2f × %s (%.2f to %.2f)\n", s.Name, median(s.rate),
		median(ratios), reference.Name, ratios[0], ratios[len(ratios)-1])
}

func median(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

func (s *Server) start() error {
	s.cmd = exec.Command(s.Command[0], s.Command[1:]...)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	s.addr = strings.TrimSpace(strings.TrimPrefix(line, Announcement))
	return err
}

func (s *Server) end() {
	if s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		_ = s.cmd.Wait()
	}
}

var succeeded = regexp.MustCompile(`(\d+) succeeded`)

// measure runs h2load once.
func (s *Server) measure(l Load) error {
	scheme := "http://"
	if l.TLS {
		scheme = "https://"
	}
	args := []string{"-n", strconv.Itoa(l.Requests), "-c", strconv.Itoa(l.Clients), "-m", strconv.Itoa(l.Streams)}
	for _, field := range l.Header {
		args = append(args, "-H", field)
	}
	if l.Body != nil {
		body, err := bodyFile(l.Body)
		if err != nil {
			return err
		}
		defer os.Remove(body)
		args = append(args, "-d", body)
	}
	before := s.cpu()
	out, err := exec.Command("h2load", append(args, scheme+s.addr+l.Path)...).CombinedOutput()
	took := s.cpu() - before
	if err != nil {
		return fmt.Errorf("h2load: %w\n%s", err, out)
	}
	found := succeeded.FindSubmatch(out)
	if found == nil || string(found[1]) != strconv.Itoa(l.Requests) {
		return fmt.Errorf("not all requests succeeded\n%s", out)
	}
	s.rate = append(s.rate, float64(l.Requests)/took)
	return nil
}

func bodyFile(body []byte) (string, error) {
	f, err := os.CreateTemp("", "body")
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = f.Write(body)
	return f.Name(), err
}

// cpu returns the seconds of CPU that the server has used.
func (s *Server) cpu() float64 {
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
