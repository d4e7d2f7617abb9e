//go:build linux

package main

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spindleloop/spindle/bench/load"
	"github.com/spindleloop/spindle/internal/report"
)

// An app is one of python/bench/server_apps.py, and the load on it. Its name is also what its servers
// speak.
type app struct {
	name, title, app string
	plan             load.Plan
}

var apps = []app{
	{"python-plaintext", "plaintext", "plaintext", load.Plan{Path: "/", Body: "Hello, world!"}},
	{"python-starlette", "Starlette, JSON", "starlette", load.Plan{Path: "/json", Body: `{"hello":"world"}`}},
	{"python-fastapi", "FastAPI, Pydantic body", "fastapi", load.Plan{
		Path: "/items", Upload: `{"name": "spindle", "price": 12.5, "tags": ["a", "b"]}`, ContentType: "application/json",
		Body: `{"name":"spindle","price":12.5,"tags":["a","b"]}`,
	}},
	{"python-echo", "10 KB POST, echoed", "echo", load.Plan{
		Path: "/", Upload: strings.Repeat("x", 10_240), ContentType: "application/octet-stream", Body: strings.Repeat("x", 10_240),
	}},
	{"python-stream", "1 MB in pieces of 64 KB", "stream", load.Plan{Path: "/", Client: "http"}},
	{"python-ws", "WebSocket, 64 bytes echoed", "websocket", load.Plan{WebSocket: true}},
	{"python-wsgi", "Flask (WSGI)", "wsgi", load.Plan{Path: "/", Body: "Hello, world!"}},
	{"python-p99", "p99 at half load, Starlette", "starlette", load.Plan{Path: "/json", Client: "http"}},
	{"python-http2", "plaintext, HTTP/2", "plaintext", load.Plan{}},
	{"python-workers", "two workers against one", "work", load.Plan{Path: "/", Body: "Hello, world!"}},
	{"python-mounted", "mounted with pyapp against direct, Starlette", "starlette", load.Plan{Path: "/json", Body: `{"hello":"world"}`}},
	{"python-mounted-fastapi", "mounted with pyapp against direct, FastAPI", "fastapi", load.Plan{
		Path: "/items", Upload: `{"name": "spindle", "price": 12.5, "tags": ["a", "b"]}`, ContentType: "application/json",
		Body: `{"name":"spindle","price":12.5,"tags":["a","b"]}`,
	}},
}

// pythonOnTwo are the apps with servers on both cores, which are compared by requests per second.
var pythonOnTwo = []string{"python-workers", "python-mounted", "python-mounted-fastapi"}

// A loopCase is an echo server on a loop of asyncio, of a kind that peers/python/echo.py has.
type loopCase struct {
	name, kind string
	plan       load.Plan
}

var loopCases = []loopCase{
	{"loop-protocol-200", "protocol", load.Plan{Conns: 200}},
	{"loop-protocol-8", "protocol", load.Plan{Conns: 8}},
	{"loop-protocol-1k", "protocol", load.Plan{Conns: 200, SizeBytes: 1024}},
	{"loop-protocol-100k", "protocol", load.Plan{Conns: 8, SizeBytes: 100_000}},
	{"loop-in-flight-16", "protocol", load.Plan{Conns: 200, Depth: 16}},
	{"loop-buffered-200", "buffered", load.Plan{Conns: 200}},
	{"loop-streams-200", "streams", load.Plan{Conns: 200}},
	{"loop-tls-64", "protocol over TLS", load.Plan{Client: "tls", Conns: 32}},
	{"loop-tls-16k", "protocol over TLS", load.Plan{Client: "tls", Conns: 8, SizeBytes: 16_000}},
	{"loop-tls-streams", "streams over TLS", load.Plan{Client: "tls", Conns: 32}},
	{"loop-udp", "udp", load.Plan{Client: "udp", Conns: 32}},
}

// about returns a sentence for --help.
func (c loopCase) about() string {
	text := fmt.Sprintf("echo on loops of Python: %s, %d connections", c.kind, c.plan.Conns)
	if c.plan.Depth > 1 {
		text += fmt.Sprintf(", %d in flight on each", c.plan.Depth)
	}
	if c.plan.SizeBytes > 0 {
		text += fmt.Sprintf(", %d bytes", c.plan.SizeBytes)
	}
	return text
}

const overTLS = " over TLS"

// loopProtocols returns the kinds of echo servers that every loop has.
func loopProtocols() []string {
	return []string{"protocol", "buffered", "streams", "udp", "protocol" + overTLS, "streams" + overTLS}
}

// loopArguments returns the arguments of peers/python/echo.py for a kind.
func loopArguments(b *builder, kind string) []string {
	if kind == inEcho {
		return nil
	}
	kind, tls := strings.CutSuffix(kind, overTLS)
	if tls {
		return []string{kind, b.certificate()}
	}
	return []string{kind}
}

func (m benchmark) python() bool { return strings.HasPrefix(m.group, "python-") }

func pythonBenchmarks() (all []benchmark) {
	for _, a := range apps {
		run := func(h *harness) ([]report.Section, error) { return h.pythonApp(a) }
		switch a.name {
		case "python-p99":
			run = func(h *harness) ([]report.Section, error) { return h.pythonP99(a) }
		case "python-http2":
			run = func(h *harness) ([]report.Section, error) {
				return h.muxed(muxed{name: a.name, title: a.title, protocol: a.name, path: "/", streams: 16, requests: 30_000})
			}
		}
		compare := run
		run = func(h *harness) ([]report.Section, error) {
			if _, err := h.builder.python(a.library()); err != nil {
				h.unprepared(a.name, err)
				return nil, nil
			}
			return compare(h)
		}
		all = append(all, benchmark{name: a.name, group: "python-servers", byName: true, about: a.title, speaks: []string{a.name}, run: run})
	}
	for _, c := range loopCases {
		p := c.plan
		p.Depth = max(p.Depth, 1)
		b := closed(c.name, c.about(), c.kind, c.name, "%d connections, %d in flight on each, %d bytes, one server core.",
			func(options) load.Plan { return p })
		b.group, b.byName = "python-loops", true
		all = append(all, b)
	}
	k := kind{"loop-memory", "Memory of an idle connection to a loop of Python", "protocol", load.Plan{}}
	return append(all, benchmark{
		name: k.name, group: "python-loops", byName: true, about: "bytes of an idle connection to a loop of Python",
		speaks: []string{k.protocol}, run: func(h *harness) ([]report.Section, error) { return h.memory(k) },
	}, benchmark{name: "worlds", group: "python-worlds", byName: true, about: "worlds of spindle.sim in a minute of CPU, beside simloop", run: runWorlds})
}

// library is the package that an app needs besides its server, or sys.
func (a app) library() string {
	switch a.app {
	case "starlette", "fastapi":
		return a.app
	case "wsgi":
		return "flask"
	}
	return "sys"
}

// pythonApp compares servers of an app.
func (h *harness) pythonApp(a app) ([]report.Section, error) {
	plan := a.plan
	plan.Conns, plan.Depth = h.o.webConns, 1
	s, err := h.answers(a.name, a.name, plan)
	if err != nil {
		return nil, err
	}
	s.Title, s.Note = a.title, fmt.Sprintf("%d connections, one worker on one core.", plan.Conns)
	if slices.Contains(pythonOnTwo, a.name) {
		s.Note = fmt.Sprintf("%d connections; servers and load share two cores.", plan.Conns)
		s.Columns[0], s.Columns[1] = s.Columns[1], s.Columns[0]
		for _, r := range s.Rows {
			r.Figures[0], r.Figures[1] = r.Figures[1], r.Figures[0]
		}
	}
	return []report.Section{s}, nil
}

// pythonP99 compares latencies while every server gets requests at the same constant rate: half of what the
// slowest one can handle.
func (h *harness) pythonP99(a app) ([]report.Section, error) {
	set, err := h.startServers(a.name, a.name, 4096)
	if err != nil {
		return nil, err
	}
	defer set.stop()
	plan := a.plan
	plan.Conns, plan.Depth, plan.Warmup, plan.Window = h.o.webConns, 1, h.o.warmup, h.o.window
	var capacity, latency report.Tally
	names, err := h.rounds(a.name+", capacity", set.names, func(name string, _ int) error {
		r, err := h.load(set.servers[name], plan)
		capacity.Add(name, false, r.PerSecond())
		return err
	})
	if err != nil {
		return nil, err
	}
	slowest := 0.0
	for _, r := range capacity.Rows(names) {
		if rate := report.SpreadOf(r.Headline()).Median; slowest == 0 || rate < slowest {
			slowest = rate
		}
	}
	plan.Rate = slowest / 2
	names, err = h.rounds(a.name, names, func(name string, _ int) error {
		r, err := h.load(set.servers[name], plan)
		if err == nil {
			latency.Add(name, set.contenders[name].ours, r.P99.Seconds()*1e6, r.P50.Seconds()*1e6, r.Max.Seconds()*1e6)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return []report.Section{{
		Name: a.name, Title: a.title, Note: fmt.Sprintf("%d connections, %.0f requests per second.", plan.Conns, plan.Rate),
		Columns: []report.Column{
			{Name: "p99 µs", Unit: report.Microseconds, Better: report.Lower},
			{Name: "p50 µs", Unit: report.Microseconds, Better: report.Lower},
			{Name: "max µs", Unit: report.Microseconds, Better: report.Lower},
		},
		Rows: latency.Rows(names), Reference: h.reference(names),
	}}, nil
}

// appNames returns the names of apps, without some.
func appNames(without ...string) (names []string) {
	for _, a := range apps {
		if !slices.Contains(without, a.name) {
			names = append(names, a.name)
		}
	}
	return names
}

// appOf returns the app of a name.
func appOf(name string) app {
	return apps[slices.IndexFunc(apps, func(a app) bool { return a.name == name })]
}

// forOne are the apps of spindle alone, and forSome those that few others serve.
var (
	forOne  = pythonOnTwo
	forSome = append([]string{"python-ws", "python-http2"}, pythonOnTwo...)
)

var pythonVariants = []variant{
	{name: "spindle", ours: true, silent: true, speaks: appNames(), prepare: spindleApp(1)},
	{name: "spindle-loop", ours: true, speaks: loopProtocols(), prepare: pythonServer("spindle")},
	{name: "rloop", speaks: []string{"protocol", "buffered", "streams"}, prepare: pythonServer("rloop")},
	{name: "spindle-two-workers", silent: true, speaks: []string{"python-workers"}, prepare: spindleApp(2)},
	{name: "mounted", speaks: pythonOnTwo[1:], silent: true, prepare: func(b *builder) (command, error) {
		binary, err := b.build(filepath.Join(b.root, "bench"), "./mounted")
		if err != nil {
			return nil, err
		}
		python, err := b.python("spindle")
		return func(s serving) []string {
			return []string{binary, "-python", python, "-dir", b.apps(), "-addr", s.addr, "server_apps:" + appOf(s.protocol).app}
		}, err
	}},
	pythonApp("uvicorn", "uvicorn", appNames(append(forOne, "python-http2")...), uvicorn("auto")),
	pythonApp("uvicorn-sansio", "uvicorn", []string{"python-ws"}, uvicorn("websockets-sansio")),
	pythonApp("uvicorn-wsproto", "wsproto", []string{"python-ws"}, uvicorn("wsproto")),
	pythonApp("granian", "granian", appNames(forOne...), func(a app, host, port string) []string {
		return append(granian(a, port), "--interface", either(a.app == "wsgi", "wsgi", "asgi"))
	}),
	pythonApp("granian-rsgi", "granian", []string{"python-plaintext", "python-http2"}, func(a app, host, port string) []string {
		return append(granian(app{app: "rsgi"}, port), "--interface", "rsgi")
	}),
	pythonApp("hypercorn", "hypercorn", appNames(forOne...), func(a app, host, port string) []string {
		target := "server_apps:" + a.app
		if slices.Contains([]string{"starlette", "fastapi", "wsgi"}, a.app) {
			// It evaluates the name among those of the module, where apps that are made on demand are not.
			target = "server_apps:__getattr__('" + a.app + "')"
		}
		if a.app == "wsgi" {
			target = "wsgi:" + target
		}
		return []string{"-m", "hypercorn", "--bind", net.JoinHostPort(host, port), "--workers", "1", "--worker-class", "uvloop", "--log-level", "warning", target}
	}),
	pythonApp("robyn", "robyn", []string{"python-plaintext"}, func(a app, host, port string) []string {
		return []string{"server_robyn.py", port, "--log-level=WARN"}
	}),
	pythonApp("socketify", "socketify", appNames(forSome...), func(a app, host, port string) []string {
		return []string{"-m", "socketify", "server_apps:" + a.app, "--host", host, "--port", port, "--workers", "1", "--interface", either(a.app == "wsgi", "wsgi", "asgi")}
	}),
	pythonApp("fastpysgi", "fastpysgi", appNames(forSome...), func(a app, host, port string) []string {
		return []string{"-c", fmt.Sprintf("import fastpysgi, server_apps; fastpysgi.run(server_apps.%s, host=%q, port=%s)", a.app, host, port)}
	}),
}

// pythonApp returns the row of a server for Python apps, if its package is installed.
func pythonApp(name, module string, serves []string, arguments func(a app, host, port string) []string) variant {
	return variant{name: name, silent: true, speaks: serves, prepare: func(b *builder) (command, error) {
		python, err := b.python(module)
		return func(s serving) []string {
			host, port, _ := net.SplitHostPort(s.addr)
			return append(b.inApps(python), arguments(appOf(s.protocol), host, port)...)
		}, err
	}}
}

// spindleApp prepares Spindle's own server.
func spindleApp(workers int) func(b *builder) (command, error) {
	return func(b *builder) (command, error) {
		python, err := b.python("spindle")
		return func(s serving) []string {
			a := appOf(s.protocol)
			_, port, _ := net.SplitHostPort(s.addr)
			return append(b.inApps(python), append([]string{"-m", "spindle"}, common("server_apps:"+a.app, port, workers, either(a.app == "wsgi", "wsgi", "asgi3"))...)...)
		}, err
	}
}

func common(target, port string, workers int, kind string) []string {
	return []string{target, "--port", port, "--no-access-log", "--log-level", "warning", "--workers", fmt.Sprint(workers), "--interface", kind}
}

func uvicorn(ws string) func(a app, host, port string) []string {
	return func(a app, host, port string) []string {
		return append(append([]string{"-m", "uvicorn"}, common("server_apps:"+a.app, port, 1, either(a.app == "wsgi", "wsgi", "asgi3"))...),
			"--loop", "uvloop", "--http", "httptools", "--ws", ws)
	}
}

func granian(a app, port string) []string {
	return []string{"-m", "granian", "server_apps:" + a.app, "--port", port, "--no-access-log", "--log-level", "warning", "--workers", "1"}
}

func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}
