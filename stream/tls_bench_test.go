package stream_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/transport"
)

// The measured servers run in processes of their own, so that their CPU time and
// memory can be told from their clients'. TestMain calls echoServer if the
// environment says so.

const echoServerEnv = "SPINDLE_TEST_TLS_ECHO"

// echoServers maps names to servers: TLS on a loop, and crypto/tls on package net
// with a read buffer of a common size or of the loop's size.
var echoServers = map[string]func(config *tls.Config){
	"stream": func(config *tls.Config) {
		panicIf(spindle.Run(context.Background(), func(ctx context.Context) error {
			ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			fmt.Println(ln.Addr())
			return stream.Serve(ctx, ln, func(ctx context.Context, plain *stream.Conn) error {
				c := stream.TLS{Config: config}.Server(plain)
				defer c.Close()
				for {
					p, err := c.ReadBorrow()
					if err != nil {
						return err
					}
					if _, err := c.Write(p); err != nil {
						return err
					}
				}
			})
		}))
	},
	"transport": func(config *tls.Config) {
		l := must(loop.New(loop.Options{}))
		ln := must(transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{
			TLS:      config,
			Protocol: func() transport.Protocol { return callbackEcho{} },
		}))
		fmt.Println(ln.Addr())
		panicIf(l.Run(context.Background()))
	},
	"net":    func(config *tls.Config) { echoOnNet(config, 4<<10) },
	"net64k": func(config *tls.Config) { echoOnNet(config, 64<<10) },
}

// callbackEcho is the server in the callback model.
type callbackEcho struct{}

func (callbackEcho) ConnectionMade(*transport.Conn)              {}
func (callbackEcho) ConnectionLost(*transport.Conn, error)       {}
func (callbackEcho) DataReceived(c *transport.Conn, data []byte) { c.Write(data) }

func echoOnNet(config *tls.Config, size int) {
	ln := must(tls.Listen("tcp", "127.0.0.1:0", config))
	fmt.Println(ln.Addr())
	for {
		c := must(ln.Accept())
		go func() {
			defer c.Close()
			buf := make([]byte, size)
			for {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				if _, err := c.Write(buf[:n]); err != nil {
					return
				}
			}
		}()
	}
}

func panicIf(err error) {
	if err != nil {
		panic(err)
	}
}

// echoServer serves until its input ends. It answers each line of input with the CPU
// time and memory it has used.
func echoServer(kind string) {
	go echoServers[kind](tlstest.Identity().Server)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var used syscall.Rusage
		panicIf(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
		var m runtime.MemStats
		if in.Text() == "memory" {
			for range 5 { // each collection halves a stack
				runtime.GC()
			}
			runtime.ReadMemStats(&m)
		}
		fmt.Println(used.Utime.Nano()+used.Stime.Nano(), m.HeapAlloc+m.StackInuse)
	}
	os.Exit(0)
}

// echoProcess is the parent's handle of an echoServer.
type echoProcess struct {
	address string
	ask     io.WriteCloser
	answers *bufio.Scanner
	cmd     *exec.Cmd
}

func startEcho(b testing.TB, kind string) *echoProcess {
	cmd := exec.Command(must(os.Executable()))
	cmd.Env = append(os.Environ(), echoServerEnv+"="+kind)
	cmd.Stderr = os.Stderr
	p := &echoProcess{cmd: cmd, ask: must(cmd.StdinPipe()), answers: bufio.NewScanner(must(cmd.StdoutPipe()))}
	panicIf(cmd.Start())
	p.answers.Scan()
	p.address = p.answers.Text()
	b.Cleanup(func() {
		p.ask.Close()
		p.cmd.Wait()
	})
	return p
}

// used returns what the process has used so far.
func (p *echoProcess) used(what string) (nanoseconds, bytes int64) {
	fmt.Fprintln(p.ask, what)
	p.answers.Scan()
	must(fmt.Sscan(p.answers.Text(), &nanoseconds, &bytes))
	return nanoseconds, bytes
}

// dialEcho opens connections and uses each once. The client does not verify the
// certificate.
func (p *echoProcess) dialEcho(b testing.TB, n, size int) []*tls.Conn {
	conns := make([]*tls.Conn, n)
	for i := range conns {
		conns[i] = must(tls.Dial("tcp", p.address, &tls.Config{InsecureSkipVerify: true}))
		pingPong(conns[i], make([]byte, size))
	}
	b.Cleanup(func() {
		for _, c := range conns {
			c.Close()
		}
	})
	return conns
}

func pingPong(c *tls.Conn, buf []byte) {
	must(c.Write(buf))
	must(io.ReadFull(c, buf))
}

// BenchmarkTLSEcho measures a server's CPU time for a message and its echo.
func BenchmarkTLSEcho(b *testing.B) {
	for _, size := range []int{128, 4 << 10, 64 << 10} {
		for _, kind := range []string{"transport", "stream", "net64k"} {
			b.Run(fmt.Sprintf("%d/%s", size, kind), func(b *testing.B) {
				p := startEcho(b, kind)
				conns := p.dialEcho(b, 32, size)
				var remaining atomic.Int64
				remaining.Store(int64(b.N))
				var all sync.WaitGroup
				before, _ := p.used("time")
				b.ResetTimer()
				for _, c := range conns {
					all.Go(func() {
						buf := make([]byte, size)
						for remaining.Add(-1) >= 0 {
							pingPong(c, buf)
						}
					})
				}
				all.Wait()
				b.StopTimer()
				after, _ := p.used("time")
				b.ReportMetric(float64(after-before)/float64(b.N), "server-ns/op")
				b.ReportMetric(float64(size)*float64(b.N)/1e6/(float64(after-before)/1e9), "MB/server-s")
			})
		}
	}
}

// BenchmarkTLSIdle measures a server's memory for a connection that was used once
// and is idle. It is a slope, which excludes the fixed cost of a server.
func BenchmarkTLSIdle(b *testing.B) {
	for _, kind := range []string{"transport", "stream", "net"} {
		b.Run(kind, func(b *testing.B) {
			for range b.N {
				p := startEcho(b, kind)
				p.dialEcho(b, 100, 128)
				_, few := p.used("memory")
				p.dialEcho(b, 1000, 128)
				_, many := p.used("memory")
				b.ReportMetric(float64(many-few)/1000, "bytes/conn")
			}
		})
	}
}

// BenchmarkTLSHandshake measures a server's CPU time for a connection that is
// opened, used once and closed.
func BenchmarkTLSHandshake(b *testing.B) {
	for _, kind := range []string{"transport", "stream", "net"} {
		b.Run(kind, func(b *testing.B) {
			p := startEcho(b, kind)
			before, _ := p.used("time")
			for range b.N {
				c := must(tls.Dial("tcp", p.address, &tls.Config{InsecureSkipVerify: true}))
				pingPong(c, make([]byte, 1))
				c.Close()
			}
			after, _ := p.used("time")
			b.ReportMetric(float64(after-before)/float64(b.N), "server-ns/op")
		})
	}
}
