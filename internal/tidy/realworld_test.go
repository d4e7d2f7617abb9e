package tidy_test

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What is real: the clock, randomness, the network, files and processes of the
// machine. A program that runs in a simulated world meets none of it, because
// nothing of it is in the packages that the program is made of, but where it is
// listed here: behind the seam, or where it is refused on a simulated loop.
var realWorld = []struct {
	pkg     string
	names   string // "*" for all
	allowed []string
}{
	{"time", "Now Since Until Sleep After AfterFunc NewTimer NewTicker Tick", []string{
		"internal/kernel/system.go", // the real clock
		"internal/kernel/usage.go",  // for the watchdog
		"loop/watchdog.go",          // simulated loops have none
		"loop/gowait.go",            // simulated kernels are no Notifier
		"sim/bubble.go",             // that of the bubble
		"sim/stall.go",              // a watch on programs that block, in real time
		"relay/outside.go",          // for goroutines outside of any loop
		"relay/gateway/clock.go",    // the same
		"either/goroutine.go",       // for goroutines outside of any loop
		"ws/conn.go",                // a limit by the second, for connections of any kind
	}},
	{"context", "WithTimeout WithDeadline WithTimeoutCause WithDeadlineCause AfterFunc", []string{
		"internal/kernel/system.go",
		"internal/simkernel/contexts.go", // which only ends a wait for the bubble's time
		"web/serve.go",                   // for goroutines, on loops that it makes itself
		"internal/intask/intask.go",      // for a task of another loop, while the task of this one has not begun
		"relay/outside.go",               // for goroutines outside of any loop
		"either/goroutine.go",            // for goroutines outside of any loop
		"ws/conn.go",                     // for contexts that are not a task's; a goroutine that is reported
	}},
	{"math/rand", "*", nil},
	{"math/rand/v2", "Int IntN Int32 Int32N Int64 Int64N Uint Uint32 UintN Uint32N Uint64 Uint64N N Float32 Float64 ExpFloat64 NormFloat64 Perm Shuffle", []string{"internal/kernel/system.go"}},
	{"crypto/rand", "*", []string{"relay/outside.go"}},
	{"net", "Dial DialTimeout DialTCP DialUDP DialUnix DialIP Listen ListenPacket ListenTCP ListenUDP ListenUnix ListenUnixgram ListenIP ListenMulticastUDP " +
		"LookupAddr LookupCNAME LookupHost LookupIP LookupMX LookupNS LookupPort LookupSRV LookupTXT ResolveTCPAddr ResolveUDPAddr ResolveIPAddr " +
		"DefaultResolver Dialer ListenConfig Resolver Interfaces InterfaceAddrs InterfaceByName InterfaceByIndex FileConn FileListener FilePacketConn", []string{
		"internal/kernel/",
		"internal/sock/addr.go", // names of ports, which are the same everywhere
		"web/serve.go",          // for goroutines, on loops that it makes itself
	}},
	{"os", "Open Create OpenFile ReadFile WriteFile ReadDir Pipe Remove Stat Lstat Mkdir MkdirAll Rename StartProcess FindProcess Getpid Hostname Stdin Stdout", []string{
		"files/", "proc/", // which refuse a simulated loop
		"internal/workerproc/pipes.go", // the same
		"sim/artifact.go",              // the page of a run that has ended
		"sim/python.go",                // the process of a program in Python, which the world drives
	}},
	{"os/exec", "*", []string{"proc/", "sim/python.go"}},
	{"os/signal", "*", []string{"proc/"}},
	{"net/http", "Client DefaultClient Transport DefaultTransport Get Head Post PostForm ListenAndServe ListenAndServeTLS Serve ServeTLS", nil},
	{"golang.org/x/sys/unix", "*", []string{"internal/kernel/", "proc/"}},
	{"syscall", "Read Write Close Socket Bind Listen Accept Accept4 Connect Sendto Recvfrom Kill Gettimeofday Getpid Open Pipe Pipe2 Exec ForkExec StartProcess Select Syscall RawSyscall", []string{"internal/kernel/", "proc/", "internal/workerproc/"}},
}

// outside are what no program runs on in a simulated world: commands, examples, the
// inspector, which observes processes from outside their loops, the Python package and the
// package that runs it, and what tests are made with.
var outside = []string{"cmd/", "inspect/", "examples/", "docs/", "internal/browsertest/", "internal/leak/", "internal/proctest/", "internal/until/", "internal/snippets/", "internal/tlstest/", "internal/http2attack/", "internal/kernel/kerneltest/", "internal/transporttest/", "python/libspindle/", "pyapp/"}

// TestNothingIsRealInASimulatedWorld reads what the files name. What it cannot see,
// the tests of determinism do.
func TestNothingIsRealInASimulatedWorld(t *testing.T) {
	atRoot(t)
	for _, s := range sources(t) {
		if s.test || within(s.path, outside) {
			continue
		}
		imported := map[string]string{} // by the name in the file
		for _, im := range s.syntax.Imports {
			name, _ := strconv.Unquote(im.Path.Value)
			local := strings.TrimSuffix(path.Base(name), "/v2")
			if local == "v2" {
				local = path.Base(path.Dir(name))
			}
			if im.Name != nil {
				local = im.Name.Name
			}
			imported[local] = name
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok || x.Obj != nil { // a variable
				return true
			}
			for _, r := range realWorld {
				if imported[x.Name] == r.pkg && !within(s.path, r.allowed) && (r.names == "*" || slices.Contains(strings.Fields(r.names), sel.Sel.Name)) {
					t.Errorf("%s uses %s.%s, which is real: a simulated program must not meet it", s.path, r.pkg, sel.Sel.Name)
				}
			}
			return true
		})
	}
}
