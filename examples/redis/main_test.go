package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/examples/internal/trial"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

func TestMain(m *testing.M) { leak.Main(m) }

// start runs the server until the test ends.
func start(t *testing.T) (addr string) {
	t.Helper()
	return trial.Start(t, func(ctx context.Context, out io.Writer) error { return run(ctx, "127.0.0.1:0", out) }).Addr(t)
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	return trial.Dial(t, "tcp", addr).(*net.TCPConn)
}

// encode is a command as clients send it.
func encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

// answers expects exactly these bytes next.
func answers(t *testing.T, c io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("it answers %q, %v; want %q", got[:n], err, want)
	}
}

// ended expects the end next.
func ended(t *testing.T, c io.Reader) {
	t.Helper()
	if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
		t.Fatalf("%q and %v instead of the end", rest, err)
	}
}

func TestCommands(t *testing.T) {
	c := dial(t, start(t))
	binary := "\x00\r\n\xff"
	for _, x := range []struct{ send, want string }{
		{encode("PING"), "+PONG\r\n"},
		{encode("ping", "you"), "$3\r\nyou\r\n"},
		{"PING\r\n", "+PONG\r\n"},
		{"\r\n  echo   hello  \n", "$5\r\nhello\r\n"},
		{encode("GET", "k"), "$-1\r\n"},
		{encode("SET", "k", binary), "+OK\r\n"},
		{encode("GET", "k"), "$4\r\n" + binary + "\r\n"},
		{encode("INCR", "k"), "-ERR value is not an integer or out of range\r\n"},
		{encode("SET", "k", "41", "EX", "100"), "+OK\r\n"},
		{encode("INCR", "k"), ":42\r\n"},
		{encode("SET", "k", "9223372036854775808"), "+OK\r\n"},
		{encode("INCR", "k"), "-ERR value is not an integer or out of range\r\n"},
		{encode("TTL", "k"), ":-1\r\n"},
		{encode("INCR", "counter"), ":1\r\n"},
		{encode("SET", "", ""), "+OK\r\n"},
		{encode("GET", ""), "$0\r\n\r\n"},
		{encode("KEYS", "*"), "*3\r\n$0\r\n\r\n$7\r\ncounter\r\n$1\r\nk\r\n"},
		{encode("KEYS", "c?unt*"), "*1\r\n$7\r\ncounter\r\n"},
		{encode("DEL", "k", "none", "counter", "k"), ":2\r\n"},
		{encode("DBSIZE"), ":1\r\n"},
		{encode("TTL", "k"), ":-2\r\n"},
		{encode("SET", "k", "v", "EX", "0"), "-ERR invalid expire time in 'set' command\r\n"},
		{encode("SET", "k", "v", "XX"), "-ERR syntax error\r\n"},
		{encode("SET", "k"), "-ERR wrong number of arguments for set\r\n"},
		{encode("FLY\r\n"), "-ERR unknown command \"FLY\\r\\n\"\r\n"},
		{encode("HELLO", "3"), "-NOPROTO unsupported protocol version\r\n"},
		{encode("HELLO"), "*4\r\n$6\r\nserver\r\n$7\r\nspindle\r\n$5\r\nproto\r\n:2\r\n"},
		{encode("COMMAND", "DOCS") + encode("CLIENT", "SETINFO", "LIB-NAME", "x"), "*0\r\n+OK\r\n"},
		{"*0\r\n*-1\r\n" + encode("QUIT") + encode("PING"), "+OK\r\n"},
	} {
		io.WriteString(c, x.send)
		answers(t, c, x.want)
	}
	ended(t, c)
}

func TestNonsenseEndsItsConnectionOnly(t *testing.T) {
	addr := start(t)
	long := strings.Repeat("x", longest-2)
	for _, x := range []struct{ send, want string }{
		{"*x\r\n", "invalid multibulk length"},
		{"*1025\r\n", "invalid multibulk length"},
		{"*1\r\nPING\r\n", "expected '$'"},
		{"*1\r\n$-1\r\n", "invalid bulk length"},
		{"*1\r\n$999999999\r\n", "invalid bulk length"},
		{"*1\r\n$4\r\nPINGPONG", "a string longer than announced"},
		{strings.Repeat("x", longest), "too big inline request"},
		{encode(long, long, long, long, long), "command too long"},
	} {
		c := dial(t, addr)
		io.WriteString(c, encode("PING")+x.send)
		answers(t, c, "+PONG\r\n-ERR Protocol error: "+x.want+"\r\n")
	}
	for _, part := range []string{"", "*2\r\n$4\r\nEC", "PIN"} { // the end comes too early
		c := dial(t, addr)
		io.WriteString(c, part)
		c.CloseWrite()
		ended(t, c)
	}
	c := dial(t, addr)
	io.WriteString(c, "PING\r\n")
	answers(t, c, "+PONG\r\n")
}

// Many commands at once have their answers in order; and a command of which only
// a part has come does not hold back the answers to those before it.
func TestPipelining(t *testing.T) {
	c := dial(t, start(t))
	const many = 20_000
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c, strings.Repeat(encode("INCR", "n"), many)+"*1\r\n$4\r\nPI")
		sent <- err
	}()
	in := bufio.NewReader(c)
	for i := range many {
		if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf(":%d\r\n", i+1) {
			t.Fatalf("answer %d is %q, %v", i, line, err)
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "NG\r\n")
	answers(t, in, "+PONG\r\n")
}

// Under virtual time a minute passes at once, and exactly.
func TestKeysExpire(t *testing.T) {
	w := sim.NewWorld(1)
	w.Host("server").Serve(func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", ":6379")
		if err != nil {
			return err
		}
		return serve(ctx, ln)
	})
	w.Host("client").Go(func(ctx context.Context) error {
		c, err := stream.Dial(ctx, "tcp", "server:6379")
		if err != nil {
			return err
		}
		defer c.Close()
		ask := func(want string, args ...string) {
			t.Helper()
			io.WriteString(c, encode(args...))
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
				t.Errorf("%v: %q, %v; want %q", args, got, err, want)
			}
		}
		ask("+OK\r\n", "SET", "short", "v", "PX", "1500")
		ask("+OK\r\n", "SET", "long", "v", "EX", "60")
		ask("+OK\r\n", "SET", "kept", "v", "EX", "60")
		ask("+OK\r\n", "SET", "kept", "w") // for ever, now
		if err := spindle.Sleep(ctx, 2*time.Second); err != nil {
			return err
		}
		ask("$-1\r\n", "GET", "short")
		ask(":58\r\n", "TTL", "long")
		if err := spindle.Sleep(ctx, time.Minute); err != nil {
			return err
		}
		ask("$-1\r\n", "GET", "long")
		ask("*1\r\n$4\r\nkept\r\n", "KEYS", "*")
		return nil
	})
	if err := w.Run(); err != nil {
		t.Error(err)
	}
}

// The real client, in a process of its own.
func TestRedisCLI(t *testing.T) {
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("redis-cli is not installed")
	}
	host, port, _ := net.SplitHostPort(start(t))
	ask := func(stdin, want string, args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, cli, append([]string{"-h", host, "-p", port}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		got, err := cmd.CombinedOutput()
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%v: it prints %q, %v; want %q", args, got, err, want)
		}
	}
	ask("", "PONG", "ping")
	ask("", "OK", "set", "greeting", "hello world", "ex", "100")
	ask("", "hello world", "get", "greeting")
	ask("line\nbreak", "OK", "-x", "set", "text") // the value is what it reads
	ask("", "line\nbreak", "get", "text")
	ask("", "greeting\ntext", "keys", "*")
	ask("", "2", "del", "greeting", "text")
	ask("incr n\nincr n\nget n\n", "1\n2\n2")
	ask(strings.Repeat(encode("INCR", "n"), 1000), "All data transferred. Waiting for the last reply...\nLast reply received from server.\nerrors: 0, replies: 1000", "--pipe")
	ask("", "1002", "get", "n")
	ask("", `ERR unknown command "fly"`, "fly")
}
