package tidy_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/goid"
)

const module = "github.com/spindleloop/spindle"

// mayImport is the architecture: what each package may import besides the
// standard library. A new arrow is a decision; write it here.
var mayImport = map[string][]string{
	".":                              {"internal/atclose", "internal/coro", "internal/goid", "internal/onloop", "internal/perloop", "internal/probe", "internal/workers", "loop", "tracing"},
	"python/libspindle":              {"inspect", "internal/deferred", "internal/http1", "internal/http2", "internal/kernel", "internal/perloop", "internal/picture", "internal/probe", "internal/simguest", "internal/simkernel", "internal/version", "loop", "web", "ws"},
	"internal/deferred":              {"internal/http1", "internal/http2"},
	"internal/direct":                {},
	"internal/coro":                  {"internal/goid", "internal/probe", "loop"},
	"internal/atclose":               {},
	"internal/workers":               {},
	"internal/perloop":               {"loop"},
	"internal/goid":                  {},
	"internal/probe":                 {},
	"internal/inspectapi":            {},
	"inspect":                        {".", "internal/atclose", "internal/goid", "internal/inspectapi", "internal/kernel", "internal/probe", "internal/sock", "loop", "web"},
	"internal/http1":                 {},
	"internal/http2":                 {"golang.org/x/net/http2/hpack"},
	"ws/internal/deflate":            {},
	"internal/intask":                {".", "internal/coro", "internal/onloop"},
	"internal/browsertest":           {"internal/short", "github.com/chromedp/cdproto/emulation", "github.com/chromedp/cdproto/runtime", "github.com/chromedp/chromedp"},
	"inspect/internal/pagetest":      {},
	"internal/leak":                  {},
	"internal/tasktest/behaviour":    {},
	"internal/tasktest/cancelpoints": {},
	"internal/tasktest/contexts":     {},
	"internal/tasktest/helpers":      {},
	"internal/tasktest/retention":    {},
	"internal/tasktest/threads":      {},
	"internal/backoff":               {},
	"internal/tidy":                  {},
	"internal/tlsio":                 {"internal/goid", "internal/kernel"},
	"internal/tlstest":               {},
	"internal/http2attack":           {"internal/http2"},
	"internal/traceparent":           {},
	"tracing":                        {"internal/traceparent"},
	"internal/version":               {},
	"internal/until":                 {".", "loop"},
	"loop/internal/wheel":            {},
	"internal/wsframe":               {},
	"internal/kernel":                {"golang.org/x/sys/unix"},
	"internal/kernel/kerneltest":     {"internal/kernel"},
	"cosync":                         {".", "internal/coro", "internal/onloop", "internal/probe", "loop"},
	"internal/short":                 {"internal/kernel"},
	"internal/report":                {},
	"internal/snippets":              {},
	"internal/simkernel":             {"internal/goid", "internal/kernel"},
	"internal/simguest":              {"internal/kernel", "internal/simkernel"},
	"internal/proctest":              {},
	"internal/picture":               {"internal/simkernel"},
	"sim":                            {".", "inspect", "internal/goid", "internal/inspectapi", "internal/kernel", "internal/perloop", "internal/picture", "internal/simguest", "internal/simkernel", "loop"},
	"loop":                           {"internal/atclose", "internal/goid", "internal/kernel", "internal/probe", "internal/workers", "loop/internal/wheel"},
	"internal/onloop":                {"internal/atclose", "internal/coro", "internal/workers", "loop"},
	"internal/sock":                  {"internal/atclose", "internal/kernel", "internal/onloop", "internal/perloop", "internal/probe", "internal/workers", "loop", "tracing"},
	"transport":                      {"internal/atclose", "internal/goid", "internal/kernel", "internal/onloop", "internal/perloop", "internal/probe", "internal/sock", "internal/tlsio", "internal/workers", "loop"},
	"internal/transporttest":         {"internal/atclose", "internal/kernel", "internal/sock", "internal/tlstest", "loop", "transport"},
	"stream":                         {".", "cosync", "internal/atclose", "internal/coro", "internal/intask", "internal/kernel", "internal/onloop", "internal/perloop", "internal/probe", "internal/sock", "internal/tlsio", "loop", "tracing"},
	"proc":                           {".", "internal/atclose", "internal/coro", "internal/kernel", "internal/perloop", "loop", "stream", "golang.org/x/sys/unix"},
	"files":                          {".", "internal/coro", "internal/onloop", "loop"},
	"supervise":                      {".", "internal/backoff"},
	"either":                         {".", "cosync", "loop"},
	"internal/simsamples":            {".", "sim", "stream"},
	"internal/mutants":               {},
	"internal/relaysim":              {".", "internal/frame", "loop", "relay", "sim", "stream", "tracing"},
	"internal/http2sim":              {".", "internal/http2", "sim", "stream", "web"},
	"ws":                             {".", "internal/atclose", "internal/coro", "internal/http1", "internal/perloop", "internal/probe", "internal/wsframe", "loop", "stream", "transport", "web", "ws/internal/deflate"},
	"web":                            {".", "internal/atclose", "internal/coro", "internal/deferred", "internal/direct", "internal/http1", "internal/http2", "internal/intask", "internal/onloop", "internal/perloop", "internal/probe", "internal/traceparent", "loop", "stream", "tracing", "transport"},
	"pyapp":                          {".", "cosync", "internal/backoff", "internal/frame", "internal/http1", "internal/workerproc", "loop", "relay", "tracing", "github.com/fxamacker/cbor/v2"},
	"relay/process":                  {".", "cosync", "internal/backoff", "internal/frame", "internal/intask", "internal/workerproc", "relay", "tracing"},
	"internal/workerproc":            {".", "proc", "stream"},
	"internal/frame":                 {"relay", "tracing"},
	"relay/gateway":                  {".", "cosync", "either", "internal/traceparent", "relay", "tracing", "web", "ws"},
	"relay/relaytest":                {".", "relay", "tracing"},
	"relay":                          {".", "cosync", "internal/atclose", "internal/intask", "internal/onloop", "internal/probe", "internal/traceparent", "loop", "tracing"},
	"cmd/spindle/relaybench":         {".", "internal/report", "relay", "relay/gateway", "web"},
	"cmd/spindle":                    {".", "cmd/spindle/cmdline", "cmd/spindle/demo", "cmd/spindle/numbers", "cmd/spindle/project", "cmd/spindle/relaydemo", "cmd/spindle/top", "cosync", "inspect", "internal/kernel", "internal/report", "internal/simsamples", "internal/version", "loop", "relay", "sim", "stream", "transport", "web", "golang.org/x/sys/unix"},
	"cmd/spindle/relaydemo":          {"cmd/spindle/relaybench", "internal/probe", "internal/report", "relay", "relay/gateway", "web"},
	"cmd/spindle/cmdline":            {},
	"cmd/spindle/numbers":            {},
	"cmd/spindle/project":            {},
	"cmd/spindle/top":                {"cmd/spindle/numbers", "internal/inspectapi", "golang.org/x/sys/unix"},
	"cmd/spindle/demo":               {".", "inspect", "loop", "web", "ws"},

	// What users write, and so nothing that is internal to the module.
	"docs/guide":                   {},
	"docs/site":                    {},
	"examples":                     {},
	"examples/internal/servertest": {},
	"examples/bank":                {".", "stream"},
	"examples/callbackloop":        {},
	"examples/crawler":             {".", "cosync"},
	"examples/echo":                {".", "stream"},
	"examples/fastapi":             {".", "pyapp", "web"},
	"examples/mixed":               {".", "cosync", "loop"},
	"examples/planes":              {".", "relay", "relay/gateway", "relay/process", "web"},
	"examples/proxy":               {".", "stream"},
	"examples/redis":               {".", "loop", "stream"},
	"examples/rooms":               {".", "cosync", "stream"},
	"examples/shutdown":            {".", "cosync"},
	"examples/taskloop":            {},
	"examples/udpecho":             {".", "stream"},
	"examples/webchat":             {".", "web", "ws"},
}

func TestImportsPointDownward(t *testing.T) {
	atRoot(t)
	for _, s := range sources(t) {
		allowed, ok := mayImport[s.dir]
		if !ok {
			t.Errorf("%s: package %s is not in mayImport", s.path, s.dir)
			continue
		}
		if s.test {
			continue
		}
		for _, im := range s.syntax.Imports {
			name, _ := strconv.Unquote(im.Path.Value)
			if name == module {
				name = "."
			}
			name = strings.TrimPrefix(name, module+"/")
			first, _, _ := strings.Cut(name, "/")
			ours := name != strings.Trim(im.Path.Value, `"`)
			if (ours || strings.Contains(first, ".")) && !slices.Contains(allowed, name) {
				t.Errorf("%s imports %s, which is not below it", s.path, name)
			}
		}
	}
}

// TestLibraryPackages: stacks tell code of the library from that of its users by a list,
// which has the public packages and what they import.
func TestLibraryPackages(t *testing.T) {
	atRoot(t)
	library := map[string]bool{}
	var add func(dir string)
	add = func(dir string) {
		if library[dir] {
			return
		}
		library[dir] = true
		for _, imported := range mayImport[dir] {
			if _, ours := mayImport[imported]; ours {
				add(imported)
			}
		}
	}
	for dir := range mayImport {
		if isPublic(dir) {
			add(dir)
		}
	}
	for dir := range mayImport {
		for _, suffix := range []string{"", "_test"} {
			pkg := strings.TrimSuffix(module+"/"+dir, "/.") + suffix
			if want := library[dir] && suffix == ""; goid.OfLibrary(pkg+".(*T).F.func1") != want {
				t.Errorf("goid.OfLibrary of package %s: want %v", pkg, want)
			}
		}
	}
}
