package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/version"
)

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	leak.Main(m)
}

// result is the result of a command line.
type result struct {
	code      int
	out, errs string
}

func run(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	code := execute(ctx, args, &out, &errs)
	return result{code, out.String(), errs.String()}
}

func TestHelp(t *testing.T) {
	for _, test := range []struct {
		args string
		want []string
	}{
		{"help", []string{"spindle echo", "spindle bench", "--help"}},
		{"--help", []string{"spindle echo", "spindle bench", "--help"}},
		{"-h", []string{"spindle echo", "spindle bench", "--help"}},
		{"echo --help", []string{"spindle echo sends back", "--addr HOST:PORT", "127.0.0.1:9000", "--backend", "--loops N", "--model"}},
		{"echo -h", []string{"spindle echo sends back"}},
		{"help echo", []string{"spindle echo sends back"}},
		{"connect --help", []string{"spindle connect [flags] HOST:PORT", "--network", "--crlf", "--insecure", "--timeout TIME"}},
		{"serve --help", []string{"is a web server", "/plaintext", "/chat", "--addr HOST:PORT", "--tls-cert FILE", "--loops N"}},
		{"bench --help", []string{"measures the loop", "--json", "--quick", "callbacks", "turns", "timers", "post", "ready", "sleep", "idle"}},
	} {
		got := run(t.Context(), strings.Fields(test.args)...)
		if got.code != 0 || got.errs != "" {
			t.Errorf("%s: exit code %d and on stderr %q; want 0 and nothing", test.args, got.code, got.errs)
		}
		for _, want := range test.want {
			if !strings.Contains(got.out, want) {
				t.Errorf("%s does not mention %q:\n%s", test.args, want, got.out)
			}
		}
	}
}

func TestVersionIsOneLine(t *testing.T) {
	for _, argument := range []string{"version", "--version"} {
		got := run(t.Context(), argument)
		if got.code != 0 || !strings.HasPrefix(got.out, "spindle "+version.Number) || strings.Count(got.out, "\n") != 1 || !strings.Contains(got.out, runtime.Version()) {
			t.Errorf("%s: got %+v; want one line with the versions of the module and of Go", argument, got)
		}
	}
}

func TestNoCommandPrintsUsage(t *testing.T) {
	got := run(t.Context())
	if got.code != 2 || got.out != "" || !strings.Contains(got.errs, "spindle echo") {
		t.Errorf("got %+v; want exit code 2 and the usage on stderr", got)
	}
}

// TestErrorsTakeOneLine checks that a wrong command line prints one line on stderr that names
// the error.
func TestErrorsTakeOneLine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, test := range []struct{ args, want string }{
		{"--cpuprofile /no/such/folder/x help", "/no/such/folder/x"},
		{"--cpuprofile", "needs a file"},
		{"--cpuprofile x", "needs a file"},
		{"help knit", `"knit"`},
		{"knit", `"knit"`},
		{"--knit", `"--knit"`},
		{"echo --bogus", "-bogus"},
		{"echo --loops many", `"many"`},
		{"echo --loops", "-loops"},
		{"echo --loops 0", "--loops 0"},
		{"echo --loops -1", "--loops -1"},
		{"echo --model actor", `"actor"`},
		{"connect", "HOST:PORT"},
		{"connect 127.0.0.1 1", "got 2 arguments"},
		{"connect --network carrier 127.0.0.1:1", `"carrier"`},
		{"connect --insecure 127.0.0.1:1", "--insecure"},
		{"connect nonsense", "nonsense"},
		{"echo --backend abacus", `"abacus"`},
		{"echo --addr nonsense", `"nonsense"`},
		{"echo --addr 127.0.0.1", `"127.0.0.1"`},
		{"echo --addr 127.0.0.1:99999", `"127.0.0.1:99999"`},
		{"echo --addr 127.0.0.1:-1", `"127.0.0.1:-1"`},
		{"echo --addr 127.0.0.1:nosuchservice", `"127.0.0.1:nosuchservice"`},
		{"echo --addr " + taken.Addr().String(), "listen on " + taken.Addr().String() + ": address already in use; choose another with --addr"},
		{"echo --loops 2 --addr " + taken.Addr().String(), taken.Addr().String()},
		{"echo stray", `"stray"`},
		{"echo --network carrier-pigeon", `"carrier-pigeon"`},
		{"echo --network unix --loops 2", "--loops"},
		{"echo --network udp --model coroutine --loops 2", "--loops"},
		{"echo --network tls --tls-cert /no/such/file --tls-key x", "/no/such/file"},
		{"echo --tls-cert c.pem --tls-key k.pem", "--network tls"},
		{"echo --network unix --addr /no/such/folder/x", "/no/such/folder/x"},
		{"proxy", "LISTEN and TARGET"},
		{"proxy :0", "want 2 arguments, LISTEN and TARGET, got 1; see 'spindle proxy --help'"},
		{"proxy :0 nonsense", `"nonsense"`},
		{"proxy nonsense 127.0.0.1:1", `"nonsense"`},
		{"proxy --max-conns -1 :0 127.0.0.1:1", "--max-conns -1"},
		{"proxy " + taken.Addr().String() + " 127.0.0.1:1", "listen on " + taken.Addr().String() + ": address already in use; choose another LISTEN"},
		{"serve --bogus", "-bogus"},
		{"serve one two", "at most one DIR"},
		{"serve --loops 0", "--loops 0"},
		{"serve --drain 0s", "--drain 0s"},
		{"serve --addr nonsense", `"nonsense"`},
		{"serve --addr " + taken.Addr().String(), "listen on " + taken.Addr().String() + ": address already in use; choose another with --addr"},
		{"serve --loops 2 --addr " + taken.Addr().String(), taken.Addr().String()},
		{"serve --tls-cert x", "--tls-key"},
		{"serve --tls-cert /no/such/file --tls-key x", "/no/such/file"},
		{"serve /no/such/folder", "/no/such/folder"},
		{"serve main.go", "not a directory"},
		{"sim --seed 44 --only bogus counter", `"bogus"`},
		{"bench --bogus", "-bogus"},
		{"bench knitting", `"knitting" (have callbacks, turns, timers, post, ready, sleep, idle, switch, spawn, gather, channel)`},
		{"bench turns knitting", `"knitting"`},
		{"bench turns --json", "--json"},
	} {
		got := run(t.Context(), strings.Fields(test.args)...)
		if got.code != 2 || got.out != "" {
			t.Errorf("%s: exit code %d and on stdout %q; want 2 and nothing", test.args, got.code, got.out)
		}
		if strings.Count(got.errs, "\n") != 1 || !strings.HasSuffix(got.errs, "\n") {
			t.Errorf("%s: on stderr %q; want one line", test.args, got.errs)
		}
		if !strings.HasPrefix(got.errs, "spindle") || !strings.Contains(got.errs, test.want) {
			t.Errorf("%s: on stderr %q; want it to name %s", test.args, got.errs, test.want)
		}
	}
}

func TestProfile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpu.pprof")
	if got := run(t.Context(), "--cpuprofile", file, "help"); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	if info, err := os.Stat(file); err != nil || info.Size() == 0 {
		t.Fatalf("no profile: %v", err)
	}
}
