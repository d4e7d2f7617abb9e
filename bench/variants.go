//go:build linux

package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// A variant is one server to measure. To compare another one, add a row.
type variant struct {
	name string
	ours bool
	// speaks is what it is told; "" is echo.
	speaks string
	// goRuntime servers get GOMAXPROCS.
	goRuntime bool
	// cores is on how many it runs; 0 is on one.
	cores int
	// prepare builds what the server needs and returns its command line, or an
	// error that says what is not installed. It runs once.
	prepare func(*workshop) (command, error)
}

// A command yields the arguments that start a server on addr, told the size of
// the bursts it will be sent.
type command func(addr string, bufferBytes int) []string

// variants are in the order in which a round measures them. The first of ours
// is the reference of all ratios unless --reference names another.
var variants = withBefore([]variant{
	{name: "spindle-protocol", ours: true, goRuntime: true, prepare: spindleEcho("protocol", 1)},
	{name: "spindle-coroutine", ours: true, goRuntime: true, prepare: spindleEcho("coroutine", 1)},
	{name: "c-epoll", prepare: cServer("epoll.c")},
	{name: "libuv", prepare: cServer("uv.c", "-luv")},
	goPeer("gnet"),
	goPeer("evio"),
	goPeer("nbio"),
	goPeer("netpoll"),
	goPeer("gaio"),
	goPeer("gonet"),
	{name: "node", prepare: nodeServer},
	{name: "uvloop", prepare: pythonServer("uvloop")},
	{name: "asyncio", prepare: pythonServer("asyncio")},
	onTwo(variant{name: "spindle-protocol", ours: true, goRuntime: true, prepare: spindleEcho("protocol", 2)}),
	onTwo(variant{name: "spindle-coroutine", ours: true, goRuntime: true, prepare: spindleEcho("coroutine", 2)}),
	onTwo(goPeer("gnet")),
	onTwo(goPeer("gonet")),
	webServer("spindle-lean"),
	webServer("spindle-inline"),
	webServer("spindle-goroutine"),
	webServer("nethttp"),
	webServer("fasthttp"),
	wsServer("spindle-socket"),
	wsServer("spindle-conn"),
	wsServer("gorilla"),
	wsServer("nbio-ws"),
})

// withBefore adds, behind each server of ours, the same server as an older version of
// Spindle has it: NAME-before. It joins in if --before says where that version is.
func withBefore(today []variant) (all []variant) {
	for _, v := range today {
		all = append(all, v)
		if v.ours {
			now := v.prepare
			v.name += "-before"
			v.ours = false
			v.prepare = func(w *workshop) (command, error) {
				older, err := w.before()
				if err != nil {
					return nil, err
				}
				return now(older)
			}
			all = append(all, v)
		}
	}
	return all
}

// What servers speak besides echo.
const (
	inPairs     = "echo on two cores"
	inHTTP      = "HTTP"
	inWebSocket = "WebSocket"
)

// onTwo is a row for an echo server with two loops, on two cores.
func onTwo(v variant) variant {
	v.name += "-2"
	v.speaks = inPairs
	v.cores = 2
	return v
}

// webServer is a row for an HTTP server linked into this binary.
func webServer(name string) variant { return linked(name, inHTTP) }

// wsServer is a row for a WebSocket server linked into this binary.
func wsServer(name string) variant { return linked(name, inWebSocket) }

func linked(name, language string) variant {
	v := goPeer(name)
	v.speaks = language
	v.ours = strings.HasPrefix(name, "spindle-")
	return v
}

func spindleEcho(model string, loops int) func(*workshop) (command, error) {
	return func(w *workshop) (command, error) {
		binary, err := w.spindle()
		if err != nil {
			return nil, err
		}
		return func(addr string, _ int) []string {
			return []string{binary, "echo", "--addr", addr, "--model", model, "--loops", strconv.Itoa(loops)}
		}, nil
	}
}

// goPeer is a row for a server linked into this binary.
func goPeer(name string) variant {
	return variant{name: name, goRuntime: true, prepare: func(w *workshop) (command, error) {
		self, err := w.bench()
		if err != nil {
			return nil, err
		}
		return func(addr string, bufferBytes int) []string {
			return []string{self, "serve", "--addr", addr, "--buffer", strconv.Itoa(bufferBytes), name}
		}, nil
	}}
}

func cServer(source string, libraries ...string) func(*workshop) (command, error) {
	return func(w *workshop) (command, error) {
		binary, err := w.compileC(source, libraries...)
		if err != nil {
			return nil, err
		}
		return func(addr string, _ int) []string { return hostPort([]string{binary}, addr) }, nil
	}
}

func nodeServer(w *workshop) (command, error) {
	node, err := w.node()
	if err != nil {
		return nil, err
	}
	script, err := w.source("node/echo.js")
	if err != nil {
		return nil, err
	}
	return func(addr string, _ int) []string { return hostPort([]string{node, script}, addr) }, nil
}

func pythonServer(loop string) func(*workshop) (command, error) {
	return func(w *workshop) (command, error) {
		python, err := w.python(loop)
		if err != nil {
			return nil, err
		}
		script, err := w.source("python/echo.py")
		if err != nil {
			return nil, err
		}
		return func(addr string, _ int) []string { return hostPort([]string{python, script, loop}, addr) }, nil
	}
}

// hostPort appends addr as two arguments, as the servers in other languages take it.
func hostPort(argv []string, addr string) []string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic(fmt.Sprintf("bench: %v", err)) // listenAddr is a constant
	}
	return append(argv, host, port)
}
