package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// asCommand is the environment variable that makes the test binary run the command.
const asCommand = "SPINDLE_TEST_AS_COMMAND"

// TestSecondInterruptStopsAtOnce interrupts twice. The first interrupt starts to drain, which
// would take an hour; the second ends the process.
func TestSecondInterruptStopsAtOnce(t *testing.T) {
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	for name, args := range map[string][]string{
		"serve": {"serve", "--addr", "127.0.0.1:0", "--drain", "1h"},
		"proxy": {"proxy", "--drain", "1h", "127.0.0.1:0", target.Addr().String()},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], args...)
			cmd.Env = append(os.Environ(), asCommand+"=1")
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			lines := bufio.NewReader(out)
			line, err := lines.ReadString('\n')
			addr := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
			if addr == "" {
				t.Fatalf("it prints %q, %v", line, err)
			}
			// A request with a response that does not end.
			conn := dial(t, addr)
			defer conn.Close()
			io.WriteString(conn, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("x", 1<<18))
			switch name {
			case "serve":
				_, err = conn.Read(make([]byte, 1))
			case "proxy":
				var passed net.Conn
				if passed, err = target.Accept(); err == nil {
					defer passed.Close()
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			cmd.Process.Signal(os.Interrupt)
			if line, err = lines.ReadString('\n'); !strings.HasSuffix(line, ": draining for at most 1h0m0s; interrupt again to stop at once\n") {
				t.Fatalf("interrupted, it prints %q, %v", line, err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			cmd.Process.Signal(os.Interrupt)
			err = <-ended
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
				t.Errorf("interrupted again, it ends with %v", err)
			}
		})
	}
}
