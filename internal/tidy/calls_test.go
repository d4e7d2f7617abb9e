package tidy_test

import (
	"go/ast"
	"testing"
)

// onlyIn is where a call may stand: a folder (with a slash at the end), a file,
// or nowhere. Tests are held to it only where the rule says so.
var onlyIn = []struct {
	call    string // package.Function
	tests   bool   // the rule is for tests too
	allowed []string
	why     string
}{
	{"time.Now", false, []string{"loop/watchdog.go", "internal/until/", "internal/kernel/", "examples/internal/servertest/", "sim/bubble.go", "cmd/", "ws/conn.go", "relay/outside.go", "relay/gateway/clock.go", "either/goroutine.go", "inspect/clock.go", "pyapp/clock.go", "examples/callbackloop/", "examples/taskloop/"}, "the kernel's Clock tells the time, so that it can be simulated"},
	{"time.Since", false, []string{"internal/until/", "internal/kernel/", "sim/bubble.go", "cmd/", "inspect/clock.go"}, "the kernel's Clock tells the time, so that it can be simulated"},
	{"time.Sleep", true, []string{"internal/until/", "cmd/spindle/bench_wait.go", "cmd/spindle/demo/demo.go", "sim/stall_test.go", "inspect/blocked_test.go"}, "sleeping hides a condition to wait for"},
	{"time.After", true, []string{"inspect/blocked_test.go", "internal/http2attack/"}, "a timer of the loop, or a condition"},
	{"time.Tick", true, nil, "a timer of the loop, or a condition"},
	{"time.AfterFunc", false, []string{"cmd/spindle/bench_timers.go", "sim/bubble.go", "sim/stall.go", "relay/outside.go", "inspect/clock.go", "loop/gowait.go", "pyapp/clock.go"}, "CallLater is the timer here"},
	{"time.NewTimer", false, []string{"loop/watchdog.go", "internal/leak/", "sim/bubble.go", "either/goroutine.go", "cmd/", "inspect/clock.go", "examples/planes/main.go"}, "CallLater is the timer here; the watchdog must not depend on the loop it watches"},
	{"rand.Uint64", false, []string{"internal/kernel/"}, "the kernel's Rand is the source, so that it can be simulated"},
	{"net.Dial", false, nil, "sockets are the kernel's"},
	{"net.Listen", false, []string{"examples/callbackloop/", "examples/taskloop/"}, "sockets are the kernel's"},
	{"log.Printf", true, nil, "errors are returned or handed to a handler"},
}

// goStatements are the files that may start goroutines.
var goStatements = []string{
	"internal/kernel/notify_linux.go",    // waits for a poller, while the loop does not
	"internal/http2attack/",              // an attacker that sends and receives, for tests
	"internal/kernel/system.go",          // Workers
	"loop/run.go",                        // finishes a Goexit
	"loop/watchdog.go",                   // the watchdog
	"internal/onloop/elsewhere.go",       // waits for a loop, which may close without an answer, for a task of another one
	"internal/coro/shutdown.go",          // ends coroutines where no thread is locked
	"internal/simkernel/process.go",      // the same
	"internal/simkernel/switch.go",       // tries the switch, and is the process where it does not work
	"sim/bubble.go",                      // a test may end by Goexit in a bubble
	"sim/parallel.go",                    // worlds of several seeds at a time
	"internal/goid/",                     // looks at goroutines of its own, once
	"relay/gateway/stream.go",            // reads a WebSocket while a call runs, for handlers on goroutines
	"relay/serve.go",                     // handlers that may block, outside of any loop
	"pyapp/lifecycle.go",                 // the supervisor's loop
	"pyapp/exchange.go",                  // sends a body while the response is read, for handlers on goroutines
	"pyapp/tunnel.go",                    // the same for upgraded connections
	"pyapp/host.go",                      // functions that Python calls, which may block
	"python/libspindle/socket_stream.go", // a WebSocket on a stream of HTTP/2, which goroutines read and write
	"cmd/",
	"inspect/background.go",         // observes loops from outside
	"examples/mixed/main.go",        // shows how
	"examples/internal/servertest/", // a process that is interrupted
}

func TestCallsStandWhereTheyMay(t *testing.T) {
	atRoot(t)
	for _, s := range sources(t) {
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			for _, rule := range onlyIn {
				if rule.call == pkg.Name+"."+sel.Sel.Name && (rule.tests || !s.test) && !within(s.path, rule.allowed) {
					t.Errorf("%s uses %s: %s", s.path, rule.call, rule.why)
				}
			}
			return true
		})
	}
}

func TestGoroutinesStartWhereTheyMay(t *testing.T) {
	atRoot(t)
	for _, s := range sources(t) {
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if _, ok := n.(*ast.GoStmt); ok && !s.test && !within(s.path, goStatements) {
				t.Errorf("%s starts a goroutine; the kernel's Workers do that", s.path)
			}
			return true
		})
	}
}

// TestNothingRunsAtImport: importing a package must not start goroutines or threads.
func TestNothingRunsAtImport(t *testing.T) {
	atRoot(t)
	for _, s := range sources(t) {
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && !s.test && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s has an init function; do the work at the first use", s.path)
			}
		}
	}
}
