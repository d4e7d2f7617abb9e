package stream_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

const loadAt = "SPINDLE_TEST_LOAD"

const message = 64 << 10

// load is the other end of a benchmark, in a process of its own. It listens and
// prints its address; then it reads a target address and a number of messages. It
// sends the messages there and receives them on the same connection, or through a
// proxy at its own listener.
func load() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(ln.Addr())
	var address string
	var messages int
	for {
		if _, err := fmt.Scanln(&address, &messages); err != nil {
			return
		}
		out, err := net.Dial("tcp", address)
		if err != nil {
			panic(err)
		}
		in := out
		if os.Getenv(loadAt) == "proxy" {
			if in, err = ln.Accept(); err != nil {
				panic(err)
			}
		}
		go func() {
			p := make([]byte, message)
			for range messages {
				if _, err := out.Write(p); err != nil {
					panic(err)
				}
			}
		}()
		n, err := io.CopyN(io.Discard, struct{ io.Reader }{in}, int64(messages)*message)
		if err != nil {
			panic(fmt.Sprint(n, err))
		}
		in.Close()
		out.Close()
		fmt.Println("done")
	}
}

// cpu returns the CPU time this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// loaded puts load on a server and reports its throughput per second of CPU time.
func loaded(b *testing.B, kind string, serve func(target string) (address string, stop func())) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), loadAt+"="+kind)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		in.Close()
		cmd.Wait()
	}()
	answers := bufio.NewScanner(out)
	answers.Scan()
	address, stop := serve(answers.Text())
	defer stop()
	b.SetBytes(message)
	before := cpu()
	b.ResetTimer()
	fmt.Fprintln(in, address, b.N)
	answers.Scan()
	b.StopTimer()
	if answers.Text() != "done" {
		b.Fatalf("%q", answers.Text())
	}
	b.ReportMetric(float64(b.N)*message/(cpu()-before).Seconds()/1e6, "MB/cpu-s")
}

func onNet(b *testing.B, handle func(c net.Conn)) (address string, stop func()) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go handle(c)
		}
	}()
	return ln.Addr().String(), func() { ln.Close() }
}

func onSpindle(b *testing.B, handle handler) (address string, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	at, ended := make(chan string), make(chan error)
	go func() {
		ended <- spindle.Run(ctx, func(ctx context.Context) error {
			ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			at <- ln.Addr().String()
			return stream.Serve(ctx, ln, handle)
		})
	}()
	return <-at, func() { cancel(); <-ended }
}

// BenchmarkBulk echoes messages of 64 KB on one connection.
func BenchmarkBulk(b *testing.B) {
	b.Run("spindle", func(b *testing.B) {
		loaded(b, "echo", func(string) (string, func()) {
			return onSpindle(b, func(ctx context.Context, c *stream.Conn) error {
				p := make([]byte, message)
				for {
					if _, err := io.ReadFull(c, p); err != nil {
						return err
					}
					if _, err := c.Write(p); err != nil {
						return err
					}
				}
			})
		})
	})
	b.Run("net", func(b *testing.B) {
		loaded(b, "echo", func(string) (string, func()) {
			return onNet(b, func(c net.Conn) {
				defer c.Close()
				p := make([]byte, message)
				for {
					if _, err := io.ReadFull(c, p); err != nil {
						return
					}
					if _, err := c.Write(p); err != nil {
						return
					}
				}
			})
		})
	})
}

// BenchmarkProxy copies messages of 64 KB from one connection to another, with
// io.Copy in both directions.
func BenchmarkProxy(b *testing.B) {
	b.Run("spindle", func(b *testing.B) {
		loaded(b, "proxy", func(target string) (string, func()) {
			return onSpindle(b, func(ctx context.Context, c *stream.Conn) error {
				to, err := stream.Dial(ctx, "tcp", target)
				if err != nil {
					return err
				}
				defer to.Close()
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.Go(func(context.Context) error {
						_, err := io.Copy(c, to)
						c.CloseWrite()
						return err
					})
					_, err := io.Copy(to, c)
					to.CloseWrite()
					return err
				})
			})
		})
	})
	b.Run("net", func(b *testing.B) {
		// net keeps the pipes it splices through in a sync.Pool, which two
		// collections empty.
		defer func() { runtime.GC(); runtime.GC() }()
		loaded(b, "proxy", func(target string) (string, func()) {
			return onNet(b, func(c net.Conn) {
				defer c.Close()
				to, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				defer to.Close()
				go func() {
					io.Copy(c, to)
					c.(*net.TCPConn).CloseWrite()
				}()
				io.Copy(to, c)
				to.(*net.TCPConn).CloseWrite()
			})
		})
	})
}
