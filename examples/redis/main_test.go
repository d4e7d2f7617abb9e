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
	"github.com/spindleloop/spindle/examples/internal/servertest"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

func TestMain(m *testing.M) { leak.Main(m) }

// encode returns a command as clients send it.
func encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

// expect reads exactly the bytes of want.
func expect(t *testing.T, c io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("it answers %q, %v; want %q", got[:n], err, want)
	}
}

// expectEOF reads EOF.
func expectEOF(t *testing.T, c io.Reader) {
	t.Helper()
	if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
		t.Fatalf("got %q, %v; want EOF", rest, err)
	}
}

func TestCommands(t *testing.T) {
	c := servertest.DialTCP(t, servertest.Listen(t, run))
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
		expect(t, c, x.want)
	}
	expectEOF(t, c)
}

func TestAProtocolErrorEndsItsConnectionOnly(t *testing.T) {
	addr := servertest.Listen(t, run)
	long := strings.Repeat("x", sizeLimit-2)
	for _, x := range []struct{ send, want string }{
		{"*x\r\n", "invalid multibulk length"},
		{"*1025\r\n", "invalid multibulk length"},
		{"*1\r\nPING\r\n", "expected '$'"},
		{"*1\r\n$-1\r\n", "invalid bulk length"},
		{"*1\r\n$999999999\r\n", "invalid bulk length"},
		{"*1\r\n$4\r\nPINGPONG", "a string longer than announced"},
		{strings.Repeat("x", sizeLimit), "too big inline request"},
		{encode(long, long, long, long, long), "command too long"},
	} {
		c := servertest.DialTCP(t, addr)
		io.WriteString(c, encode("PING")+x.send)
		expect(t, c, "+PONG\r\n-ERR Protocol error: "+x.want+"\r\n")
	}
	for _, part := range []string{"", "*2\r\n$4\r\nEC", "PIN"} { // EOF comes too early
		c := servertest.DialTCP(t, addr)
		io.WriteString(c, part)
		c.CloseWrite()
		expectEOF(t, c)
	}
	c := servertest.DialTCP(t, addr)
	io.WriteString(c, "PING\r\n")
	expect(t, c, "+PONG\r\n")
}

// TestPipelining sends many commands at once and expects the answers in order. An
// incomplete command does not delay the answers to the commands before it.
func TestPipelining(t *testing.T) {
	c := servertest.DialTCP(t, servertest.Listen(t, run))
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
	expect(t, in, "+PONG\r\n")
}

// TestKeysExpire runs under virtual time, so that it takes no time and is exact.
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
		ask("+OK\r\n", "SET", "kept", "w") // no longer expires
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

// TestRedisCLI runs the real client.
func TestRedisCLI(t *testing.T) {
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("redis-cli is not installed")
	}
	host, port, _ := net.SplitHostPort(servertest.Listen(t, run))
	ask := func(stdin, want string, args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), servertest.Timeout)
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
	ask("line\nbreak", "OK", "-x", "set", "text") // the value comes from standard input
	ask("", "line\nbreak", "get", "text")
	ask("", "greeting\ntext", "keys", "*")
	ask("", "2", "del", "greeting", "text")
	ask("incr n\nincr n\nget n\n", "1\n2\n2")
	ask(strings.Repeat(encode("INCR", "n"), 1000), "All data transferred. Waiting for the last reply...\nLast reply received from server.\nerrors: 0, replies: 1000", "--pipe")
	ask("", "1002", "get", "n")
	ask("", `ERR unknown command "fly"`, "fly")
}
