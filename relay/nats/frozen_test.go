package nats_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// workerVariable makes the test binary a worker of the server that it names.
const workerVariable = "SPINDLE_TEST_NATS"

func TestMain(m *testing.M) {
	if url := os.Getenv(workerVariable); url != "" {
		if err := workUntilInputEnds(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if url := os.Getenv(upperVariable); url != "" {
		if err := serveUpper(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	m.Run()
}

// workUntilInputEnds serves the subject "name", and prints a line when it does.
func workUntilInputEnds(url string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bus, err := nats.Connect(ctx, url, nats.Options{NATS: []client.Option{patient}})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- relay.NewWorker(bus).Serve(ctx, "name", named("process"), relay.ServeOptions{Ready: func() { fmt.Println("ready") }})
	}()
	io.Copy(io.Discard, os.Stdin)
	cancel()
	<-ended
	return bus.Close()
}

func named(name string) relay.Handler {
	return func(context.Context, *relay.Request) ([]byte, error) { return []byte(name), nil }
}

// startWorker starts a process that serves "name" until the test ends.
func startWorker(t *testing.T, b *broker.Broker) *os.Process {
	t.Helper()
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), workerVariable+"="+b.URL())
	worker.Stderr = os.Stderr
	in, err := worker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		worker.Process.Signal(syscall.SIGCONT)
		in.Close()
		worker.Wait()
	})
	if line := make([]byte, 6); !readsReady(out, line) {
		t.Fatalf("the worker printed %q", line)
	}
	return worker.Process
}

func readsReady(r io.Reader, line []byte) bool {
	_, err := io.ReadFull(r, line)
	return err == nil && string(line) == "ready\n"
}

// freeze stops a process, and returns when it has stopped.
func freeze(t *testing.T, p *os.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	_, err := syscall.Wait4(p.Pid, &status, syscall.WUNTRACED, nil)
	for err == syscall.EINTR {
		_, err = syscall.Wait4(p.Pid, &status, syscall.WUNTRACED, nil)
	}
	if err != nil || !status.Stopped() {
		t.Fatalf("the process has not stopped: %v, %v", status, err)
	}
}

// TestHedgeAgainstAFrozenWorker: calls get replies although the server does not notice that a worker is
// stopped.
func TestHedgeAgainstAFrozenWorker(t *testing.T) {
	b := start(t, broker.Options{})
	serve(t, connect(t, b, nats.Options{}), "name", named("test"), relay.ServeOptions{})
	process := startWorker(t, b)
	c := caller(t, connect(t, b, nats.Options{}))
	until.Holds(t, func() bool {
		name, err := c.Call(t.Context(), "name", nil)
		return err == nil && string(name) == "process"
	})
	hedging, err := relay.NewCaller(t.Context(), connect(t, b, nats.Options{}), relay.CallerOptions{Hedge: 50 * time.Millisecond, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer hedging.Close()
	freeze(t, process)
	call := func() {
		if _, err := hedging.Call(t.Context(), "name", nil); err != nil {
			t.Errorf("a call with Hedge: %v", err)
		}
	}
	until.Holds(t, func() bool { call(); return hedging.Stats().Hedged > 0 }) // about half go to the frozen one first
	for range 20 {
		call()
	}
}

// TestFrozenWorkerLosesItsCalls: a worker that is stopped gets no calls once the server has
// noticed that it does not answer, and gets its share again when it continues.
func TestFrozenWorkerLosesItsCalls(t *testing.T) {
	b := startStrict(t, broker.Options{})
	serve(t, connect(t, b, nats.Options{}), "name", named("test"), relay.ServeOptions{})
	process := startWorker(t, b)
	c := caller(t, connect(t, b, nats.Options{}))
	ask := func() string {
		reply, err := c.Do(t.Context(), relay.Envelope{Subject: "name", Deadline: 3 * time.Second})
		if err != nil { // of the frozen worker, or of a server that has cut off this bus on a busy machine
			return ""
		}
		return string(reply.Body)
	}
	answers := func() bool { return ask() == "process" }
	until.Holds(t, answers)
	freeze(t, process)
	const inARow = 60 // of two workers, both would have had one
	answered := 0
	until.Holds(t, func() bool { // a server with its own defaults takes more than four minutes
		if answered++; ask() == "" {
			answered = 0
		}
		return answered == inARow
	})
	process.Signal(syscall.SIGCONT)
	until.Holds(t, answers)
}
