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
	// prepare builds what the server needs and returns its command line, or an
	// error that says what is not installed. It runs once.
	prepare func(*workshop) (command, error)
}

// A command yields the arguments that start a server on addr, told the size of
// the bursts it will be sent.
type command func(addr string, bufferBytes int) []string

// variants are in the order in which a round measures them. The first of ours
// is the reference of all ratios unless --reference names another.
var variants = []variant{
	{name: "spindle-protocol", ours: true, goRuntime: true, prepare: spindleEcho("protocol", (*workshop).spindle)},
	{name: "spindle-coroutine", ours: true, goRuntime: true, prepare: spindleEcho("coroutine", (*workshop).spindle)},
	{name: "spindle-before", goRuntime: true, prepare: spindleEcho("protocol", (*workshop).before)},
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
	webServer("spindle-lean"),
	webServer("spindle-inline"),
	webServer("spindle-goroutine"),
	webServer("nethttp"),
	webServer("fasthttp"),
}

// inHTTP is what web servers speak.
const inHTTP = "HTTP"

// webServer is a row for an HTTP server linked into this binary.
func webServer(name string) variant {
	v := goPeer(name)
	v.speaks = inHTTP
	v.ours = strings.HasPrefix(name, "spindle-")
	return v
}

func spindleEcho(model string, build func(*workshop) (string, error)) func(*workshop) (command, error) {
	return func(w *workshop) (command, error) {
		binary, err := build(w)
		if err != nil {
			return nil, err
		}
		return func(addr string, _ int) []string {
			return []string{binary, "echo", "--addr", addr, "--model", model, "--loops", "1"}
		}, nil
	}
}

// goPeer is a row for a server linked into this binary.
func goPeer(name string) variant {
	return variant{name: name, goRuntime: true, prepare: func(w *workshop) (command, error) {
		return func(addr string, bufferBytes int) []string {
			return []string{w.self, "serve", "--addr", addr, "--buffer", strconv.Itoa(bufferBytes), name}
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
