//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spindleloop/spindle/bench/peers/rust"
)

// A variant is one server to measure. To compare another one, add a row.
type variant struct {
	name string
	ours bool
	// speaks are the protocols and settings of the server.
	speaks []string
	// goRuntime servers are started with GOMAXPROCS set.
	goRuntime bool
	// cores is the number of cores it runs on; 0 means one.
	cores int
	// alone is no server: the command does the work itself, and prints its rate.
	alone bool
	// silent servers do not announce their address.
	silent bool
	// prepare builds what the server needs and returns its command line, or an
	// error that says what is not installed. It runs once.
	prepare func(*builder) (command, error)
}

// speaksAny reports whether v speaks one of the protocols.
func (v variant) speaksAny(protocols []string) bool {
	return slices.ContainsFunc(v.speaks, func(p string) bool { return slices.Contains(protocols, p) })
}

// A command returns the arguments that start a server.
type command func(s serving) []string

// serving says what a server is started for. BufferBytes is the size of the bursts that the load
// generator sends.
type serving struct {
	addr        string
	bufferBytes int
	protocol    string // one that the variant speaks
}

// What servers speak.
const (
	inEcho      = "echo"
	inTLS       = "echo over TLS"
	echoOnTwo   = "echo on two cores"
	inHTTP      = "HTTP"
	inHTTPS     = "HTTPS"
	inHTTP2     = "HTTP/2"
	inHTTP2TLS  = "HTTP/2 over TLS"
	inGRPC      = "gRPC"
	inWebSocket = "WebSocket"
)

var (
	echoes   = []string{inEcho}
	web1     = []string{inHTTP, inHTTPS}
	webs     = []string{inHTTP, inHTTPS, inHTTP2, inHTTP2TLS}
	sockets  = []string{inWebSocket}
	twoCores = []string{echoOnTwo}
)

// variants lists the servers in the order in which a round measures them. The first
// one of Spindle in a benchmark is the reference of its ratios unless --reference names another.
var variants = withVersions(slices.Concat([]variant{
	{name: "spindle-protocol", ours: true, speaks: []string{inEcho, inTLS}, goRuntime: true, prepare: spindleEcho("protocol", 1)},
	{name: "spindle-coroutine", ours: true, speaks: []string{inEcho, inTLS}, goRuntime: true, prepare: spindleEcho("coroutine", 1)},
	{name: "c-epoll", speaks: echoes, prepare: cServer("epoll.c")},
	{name: "libuv", speaks: echoes, prepare: cServer("uv.c", "-luv")},
	linked("gnet", echoes),
	linked("evio", echoes),
	linked("nbio", echoes),
	linked("netpoll", echoes),
	linked("gaio", echoes),
	linked("gonet", []string{inEcho, inTLS}),
	{name: "node", speaks: echoes, prepare: nodeServer},
	{name: "uvloop", speaks: append(loopProtocols(), inEcho), prepare: pythonServer("uvloop")},
	{name: "asyncio", speaks: append(loopProtocols(), inEcho), prepare: pythonServer("asyncio")},
	onTwo(variant{name: "spindle-protocol", ours: true, goRuntime: true, prepare: spindleEcho("protocol", 2)}),
	onTwo(variant{name: "spindle-coroutine", ours: true, goRuntime: true, prepare: spindleEcho("coroutine", 2)}),
	onTwo(linked("gnet", nil)),
	onTwo(linked("gonet", nil)),
	linked("spindle-lean", webs),
	linked("spindle-inline", webs),
	linked("spindle-goroutine", webs),
	linked("nethttp", webs),
	linked("fasthttp", web1),
	rustServer("hyper", inHTTP, inHTTP2),
	rustServer("axum", inHTTP),
	rustServer("may_minihttp", inHTTP),
	linked("spindle-socket", sockets),
	linked("spindle-conn", sockets),
	linked("gorilla", sockets),
	{name: "nbio-ws", speaks: sockets, goRuntime: true, prepare: ownCommand("nbiows")},
	grpcServer("webgrpc-inline"),
	grpcServer("webgrpc-goroutine"),
	grpcServer("grpc-go"),
	grpcServer("ServeHTTP-web"),
	grpcServer("ServeHTTP-nethttp"),
	grpcServer("ServeHTTP-alone"),
}, pythonVariants))

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

// onTwo returns the row of an echo server with two loops, on two cores.
func onTwo(v variant) variant {
	v.name += "-2"
	v.speaks = twoCores
	v.cores = 2
	return v
}

func spindleEcho(model string, loops int) func(*builder) (command, error) {
	return func(b *builder) (command, error) {
		binary, err := b.spindle()
		if err != nil {
			return nil, err
		}
		return func(s serving) []string {
			network := "tcp"
			if s.protocol == inTLS {
				network = "tls"
			}
			return []string{binary, "echo", "--addr", s.addr, "--network", network, "--model", model, "--loops", strconv.Itoa(loops)}
		}, nil
	}
}

// linked returns the row of a server linked into this binary.
func linked(name string, speaks []string) variant {
	return variant{name: name, ours: strings.HasPrefix(name, "spindle-"), speaks: speaks, goRuntime: true, prepare: func(b *builder) (command, error) {
		self, err := b.bench()
		if err != nil {
			return nil, err
		}
		return func(s serving) []string {
			argv := []string{self, "serve", "--addr", s.addr, "--buffer", strconv.Itoa(s.bufferBytes)}
			if b.profiles != "" { // an older version may not have the flag
				argv = append(argv, "--profiles", b.profiles)
			}
			if s.protocol == inTLS || s.protocol == inHTTPS || s.protocol == inHTTP2TLS {
				argv = append(argv, "--tls")
			}
			if s.protocol == inHTTP2 || s.protocol == inHTTP2TLS {
				argv = append(argv, "--http2")
			}
			return append(argv, strings.TrimSuffix(name, "-2"))
		}, nil
	}}
}

// rustServer returns the row of an HTTP server in Rust.
func rustServer(name string, speaks ...string) variant {
	return variant{name: name, speaks: speaks, prepare: func(*builder) (command, error) {
		binary, err := rust.Build()
		if errors.Is(err, rust.ErrNotInstalled) {
			return nil, notInstalled(err.Error())
		}
		return func(s serving) []string {
			if s.protocol == inHTTP2 {
				return hostPort([]string{binary, name + "-http2"}, s.addr)
			}
			return hostPort([]string{binary, name}, s.addr)
		}, err
	}}
}

// ownCommand builds a server that is a command of its own, in a folder of this module.
func ownCommand(folder string, args ...string) func(b *builder) (command, error) {
	return func(b *builder) (command, error) {
		binary, err := b.build(filepath.Join(b.root, "bench"), "./"+folder)
		if err != nil {
			return nil, err
		}
		return func(s serving) []string { return append([]string{binary, "--addr", s.addr}, args...) }, nil
	}
}

// grpcServer returns the row of a gRPC server.
func grpcServer(name string) variant {
	return variant{
		name: name, ours: strings.HasPrefix(name, "webgrpc"), speaks: []string{inGRPC}, goRuntime: true,
		alone: name == "ServeHTTP-alone", prepare: ownCommand("grpc", name),
	}
}

func cServer(source string, libraries ...string) func(*builder) (command, error) {
	return func(b *builder) (command, error) {
		binary, err := b.compileC(source, libraries...)
		if err != nil {
			return nil, err
		}
		return func(s serving) []string { return hostPort([]string{binary}, s.addr) }, nil
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
	return func(s serving) []string { return hostPort([]string{node, script}, s.addr) }, nil
}

func pythonServer(loop string) func(*builder) (command, error) {
	return func(b *builder) (command, error) {
		script, err := b.source("python/echo.py")
		if err != nil {
			return nil, err
		}
		python, err := b.python(loop)
		if err != nil {
			return nil, err
		}
		return func(s serving) []string {
			return append(hostPort(append(b.inApps(python), script, loop), s.addr), loopArguments(b, s.protocol)...)
		}, nil
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
