//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spindleloop/spindle/bench/peers/rust"
)

// A variant is one server to measure. To compare another one, add a row.
type variant struct {
	name string
	ours bool
	// speaks is the protocol and setting of the server; "" is plain echo.
	speaks string
	// goRuntime servers are started with GOMAXPROCS set.
	goRuntime bool
	// cores is the number of cores it runs on; 0 means one.
	cores int
	// prepare builds what the server needs and returns its command line, or an
	// error that says what is not installed. It runs once.
	prepare func(*builder) (command, error)
}

// A command returns the arguments that start a server on addr. BufferBytes is the size
// of the bursts that the load generator sends.
type command func(addr string, bufferBytes int) []string

// variants lists the servers in the order in which a round measures them. The first
// one of Spindle is the reference of all ratios unless --reference names another.
var variants = withVersions([]variant{
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
	rustServer("hyper"),
	rustServer("axum"),
	rustServer("may_minihttp"),
	wsServer("spindle-socket"),
	wsServer("spindle-conn"),
	wsServer("gorilla"),
	{name: "nbio-ws", speaks: inWebSocket, goRuntime: true, prepare: nbioWebSocket},
})

// withVersions adds, after each server of Spindle, the same server in other versions:
// NAME-before, which takes part if --before names a checkout of an older version, and
// NAME-portable, which takes part with --portable.
func withVersions(today []variant) (all []variant) {
	for _, v := range today {
		all = append(all, v)
		if !v.ours {
			continue
		}
		for _, version := range []string{"before", "portable"} {
			other := v
			other.name += "-" + version
			other.ours = false
			other.prepare = func(b *builder) (command, error) {
				from, err := b.other(version)
				if err != nil {
					return nil, err
				}
				return v.prepare(from)
			}
			all = append(all, other)
		}
	}
	return all
}

// What servers speak, besides plain echo.
const (
	echoOnTwo   = "echo on two cores"
	inHTTP      = "HTTP"
	inWebSocket = "WebSocket"
)

// onTwo returns the row of an echo server with two loops, on two cores.
func onTwo(v variant) variant {
	v.name += "-2"
	v.speaks = echoOnTwo
	v.cores = 2
	return v
}

// webServer returns the row of an HTTP server linked into this binary.
func webServer(name string) variant { return linked(name, inHTTP) }

// wsServer returns the row of a WebSocket server linked into this binary.
func wsServer(name string) variant { return linked(name, inWebSocket) }

func linked(name, speaks string) variant {
	v := goPeer(name)
	v.speaks = speaks
	v.ours = strings.HasPrefix(name, "spindle-")
	return v
}

func spindleEcho(model string, loops int) func(*builder) (command, error) {
	return func(b *builder) (command, error) {
		binary, err := b.spindle()
		if err != nil {
			return nil, err
		}
		return func(addr string, _ int) []string {
			return []string{binary, "echo", "--addr", addr, "--model", model, "--loops", strconv.Itoa(loops)}
		}, nil
	}
}

// goPeer returns the row of a server linked into this binary.
func goPeer(name string) variant {
	return variant{name: name, goRuntime: true, prepare: func(b *builder) (command, error) {
		self, err := b.bench()
		if err != nil {
			return nil, err
		}
		return func(addr string, bufferBytes int) []string {
			return []string{self, "serve", "--addr", addr, "--buffer", strconv.Itoa(bufferBytes), name}
		}, nil
	}}
}

// rustServer returns the row of an HTTP server in Rust.
func rustServer(name string) variant {
	return variant{name: name, speaks: inHTTP, prepare: func(*builder) (command, error) {
		binary, err := rust.Build()
		if errors.Is(err, rust.ErrNotInstalled) {
			return nil, notInstalled(err.Error())
		}
		return func(addr string, _ int) []string { return hostPort([]string{binary, name}, addr) }, err
	}}
}

// nbioWebSocket builds the command of nbio's WebSocket server.
func nbioWebSocket(b *builder) (command, error) {
	binary, err := b.build(filepath.Join(b.root, "bench"), "./nbiows")
	if err != nil {
		return nil, err
	}
	return func(addr string, _ int) []string { return []string{binary, "--addr", addr} }, nil
}

func cServer(source string, libraries ...string) func(*builder) (command, error) {
	return func(b *builder) (command, error) {
		binary, err := b.compileC(source, libraries...)
		if err != nil {
			return nil, err
		}
		return func(addr string, _ int) []string { return hostPort([]string{binary}, addr) }, nil
	}
}

func nodeServer(b *builder) (command, error) {
	node, err := b.node()
	if err != nil {
		return nil, err
	}
	script, err := b.source("node/echo.js")
	if err != nil {
		return nil, err
	}
	return func(addr string, _ int) []string { return hostPort([]string{node, script}, addr) }, nil
}

func pythonServer(loop string) func(*builder) (command, error) {
	return func(b *builder) (command, error) {
		python, err := b.python(loop)
		if err != nil {
			return nil, err
		}
		script, err := b.source("python/echo.py")
		if err != nil {
			return nil, err
		}
		return func(addr string, _ int) []string { return hostPort([]string{python, script, loop}, addr) }, nil
	}
}

// hostPort appends addr as two arguments, which the servers in other languages expect.
func hostPort(argv []string, addr string) []string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic(fmt.Sprintf("bench: %v", err)) // listenAddr is a constant
	}
	return append(argv, host, port)
}
