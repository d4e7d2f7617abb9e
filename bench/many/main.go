// Many holds very many connections: to several echo servers, each a process, because the system limits the
// descriptors of one. Every connection is tried with a message, kept open, and tried again.
//
//	many                                            50,000 connections, three servers
//	many --model coroutine --connections 30000
//
// It prints the memory and the CPU time of the servers.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spindleloop/spindle/bench/proc"
)

func main() {
	connections := flag.Int("connections", 50_000, "`N` connections in all")
	processes := flag.Int("processes", 3, "`N` servers, and as many clients")
	model := flag.String("model", "protocol", "`MODEL` of the servers: protocol or coroutine")
	idle := flag.Duration("idle", 10*time.Second, "`TIME` for which all connections are idle")
	command := flag.String("spindle", "", "`FILE` of the command spindle; built from this checkout by default")
	client := flag.String("client", "", "`ADDRESS` of a server; this process is one of its clients")
	flag.Parse()
	var err error
	if *client != "" {
		err = keep(*client, *connections, os.Stdin, os.Stdout)
	} else {
		err = measure(*command, *model, *processes, *connections, *idle)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "many:", err)
		os.Exit(1)
	}
}

// pair is a server with its client.
type pair struct {
	server *proc.Server
	client *exec.Cmd
	input  io.WriteCloser
	output *bufio.Reader
	n      int // connections

	empty int64 // resident bytes before the first connection
}

func measure(command, model string, processes, connections int, idle time.Duration) (err error) {
	if processes < 1 || connections < processes {
		return errors.New("--processes and --connections: want at least one, and a connection for each")
	}
	limit, err := proc.RaiseFileLimit()
	if err != nil {
		return err
	}
	if most := connections/processes + 100; most > limit {
		return fmt.Errorf("%d connections in each of %d processes: a process may have %d descriptors", most-100, processes, limit)
	}
	if command == "" {
		dir, err := os.MkdirTemp("", "many")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		command = filepath.Join(dir, "spindle")
		build := exec.Command("go", "build", "-o", command, "./cmd/spindle")
		build.Dir, build.Stderr = "..", os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("go build in ..: %w", err)
		}
	}
	var pairs []*pair
	defer func() {
		for _, p := range pairs {
			err = errors.Join(err, p.end())
		}
	}()
	begin := time.Now()
	for i := range processes {
		p, err := start(command, model, share(connections, processes, i))
		if err != nil {
			return err
		}
		pairs = append(pairs, p)
	}
	for _, p := range pairs {
		if err := p.said("open"); err != nil {
			return err
		}
	}
	fmt.Printf("%d connections to %d servers (%s), opened and answered in %.1f s\n", connections, processes, model, time.Since(begin).Seconds())
	var before, after time.Duration
	var bytes int64
	for _, p := range pairs {
		if err := proc.Settle(p.server.Pid, 10*time.Second); err != nil {
			return err
		}
		cpu, err := proc.CPUTime(p.server.Pid)
		if err != nil {
			return err
		}
		rss, err := proc.RSS(p.server.Pid)
		if err != nil {
			return err
		}
		before += cpu
		bytes += rss - p.empty
	}
	fmt.Printf("memory of the servers: %.1f MB more than without connections, %d bytes for each\n", float64(bytes)/1e6, bytes/int64(connections))
	time.Sleep(idle)
	for _, p := range pairs {
		cpu, err := proc.CPUTime(p.server.Pid)
		if err != nil {
			return err
		}
		after += cpu
	}
	fmt.Printf("CPU time of the servers in %v without traffic: %v\n", idle, after-before)
	begin = time.Now()
	for _, p := range pairs {
		io.WriteString(p.input, "again\n")
	}
	for _, p := range pairs {
		if err := p.said("answered"); err != nil {
			return err
		}
	}
	fmt.Printf("a second message on each of them was answered in %.1f s, all by the server that has the connection\n", time.Since(begin).Seconds())
	return nil
}

// share returns how many of the connections the i-th process has.
func share(connections, processes, i int) int {
	n := connections / processes
	if i < connections%processes {
		n++
	}
	return n
}

func start(command, model string, n int) (p *pair, err error) {
	p = &pair{n: n}
	cores, err := proc.Cores()
	if err != nil {
		return nil, err
	}
	if p.server, err = proc.StartServer(cores, []string{command, "echo", "--addr", "127.0.0.1:0", "--model", model}, nil); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.server.Stop()
		}
	}()
	if p.empty, err = proc.RSS(p.server.Pid); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p.client = exec.Command(self, "--client", p.server.Addr, "--connections", strconv.Itoa(n))
	p.client.Stderr = os.Stderr
	if p.input, err = p.client.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.client.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.output = bufio.NewReader(out)
	return p, p.client.Start()
}

// said waits for a line of the client.
func (p *pair) said(want string) error {
	line, err := p.output.ReadString('\n')
	if line != want+" "+strconv.Itoa(p.n)+"\n" {
		return fmt.Errorf("a client says %q instead of %q: %v", line, want, err)
	}
	return nil
}

func (p *pair) end() error {
	p.input.Close()
	err := p.client.Wait()
	p.server.Stop()
	return err
}
