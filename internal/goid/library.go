package goid

import "strings"

const module = "github.com/spindleloop/spindle"

// OfLibrary reports whether a function, named as in a stack, belongs to a package that
// programs import, directly or not. The module's own programs and tests are not part of the
// library: they use it like any other code.
func OfLibrary(function string) bool {
	pkg := packageOf(function)
	inside, ok := strings.CutPrefix(pkg, module+"/")
	return pkg == module || ok && library[inside]
}

// packageOf returns the import path of a function's package.
func packageOf(function string) string {
	last := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[last:], ".")
	return function[:last] + name
}

// library has the packages of the library besides the root, by their paths in the module.
// A test of internal/tidy compares it with the imports.
var library = map[string]bool{
	"cosync":               true,
	"supervise":            true,
	"either":               true,
	"files":                true,
	"inspect":              true,
	"inspect/otel":         true,
	"internal/coro":        true,
	"internal/deferred":    true,
	"internal/direct":      true,
	"ws/internal/deflate":  true,
	"internal/frame":       true,
	"internal/goid":        true,
	"internal/http1":       true,
	"internal/http2":       true,
	"internal/inspectapi":  true,
	"internal/intask":      true,
	"internal/kernel":      true,
	"internal/atclose":     true,
	"internal/backoff":     true,
	"internal/perloop":     true,
	"internal/workers":     true,
	"internal/onloop":      true,
	"internal/picture":     true,
	"internal/probe":       true,
	"internal/simguest":    true,
	"internal/simkernel":   true,
	"internal/sock":        true,
	"internal/tlsio":       true,
	"internal/traceparent": true,
	"tracing":              true,
	"internal/workerproc":  true,
	"internal/wsframe":     true,
	"loop/internal/wheel":  true,
	"loop":                 true,
	"proc":                 true,
	"pyapp":                true,
	"relay":                true,
	"relay/gateway":        true,
	"relay/nats":           true,
	"relay/process":        true,
	"relay/relaytest":      true,
	"sim":                  true,
	"stream":               true,
	"transport":            true,
	"web":                  true,
	"web/webgrpc":          true,
	"ws":                   true,
}
