//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/spindleloop/spindle/bench/peers"
	"github.com/spindleloop/spindle/bench/proc"
	"github.com/spindleloop/spindle/internal/report"
)

// A muxed load is what h2load sends over h2Clients connections.
type muxed struct {
	name, title, protocol, path string
	streams, requests           int // requests at a time on a connection, and in a round
	body                        []byte
	header                      []string
}

const h2Clients = 32

var muxedLoads = []muxed{
	{name: "http2-hello", title: "Hello, World!", protocol: inHTTP2, path: peers.Path, streams: 16, requests: 100_000},
	{name: "http2-one-stream", title: "one stream", protocol: inHTTP2, path: peers.Path, streams: 1, requests: 30_000},
	{name: "http2-tls", title: "TLS", protocol: inHTTP2TLS, path: peers.Path, streams: 16, requests: 60_000},
	{name: "http2-download", title: "1 MB down", protocol: inHTTP2, path: peers.Large, streams: 4, requests: 500},
	{name: "http2-upload", title: "1 MB up", protocol: inHTTP2, path: peers.Upload, streams: 4, requests: 500, body: make([]byte, 1<<20)},
	{
		name: "grpc", title: "gRPC", protocol: inGRPC, path: "/grpc.testing.TestService/UnaryCall", streams: 16, requests: 30_000,
		body: grpcCall, header: []string{"content-type: application/grpc", "te: trailers"},
	},
}

// grpcCall is a SimpleRequest with a payload of 64 bytes, behind its prefix. The servers are checked with a client
// of gRPC, because h2load does not look at the status of a call.
var grpcCall = append([]byte{0, 0, 0, 0, 68, 0x1a, 66, 0x12, 64}, make([]byte, 64)...)

func muxedBenchmarks() (all []benchmark) {
	for _, m := range muxedLoads {
		b := benchmark{
			name: m.name, group: "http2", byName: true, about: fmt.Sprintf("%s over %d connections, streams on each: %d", m.title, h2Clients, m.streams),
			speaks: []string{m.protocol}, run: func(h *harness) ([]report.Section, error) { return h.muxed(m) },
		}
		if m.protocol == inGRPC {
			b.group, b.about = "", "unary calls of 64 bytes over 32 connections, 16 streams on each"
		}
		all = append(all, b)
	}
	return all
}

// muxed compares servers under h2load.
func (h *harness) muxed(m muxed) ([]report.Section, error) {
	h2load, err := exec.LookPath("h2load")
	if err != nil {
		h.unprepared(m.name, notInstalled("no h2load; apt-get install nghttp2-client"))
		return nil, nil
	}
	if h.o.smoke {
		m.requests = min(m.requests, h2Clients*m.streams)
	}
	set := &serverSet{contenders: map[string]*contender{}, servers: map[string]*proc.Server{}}
	defer set.stop()
	for _, c := range h.speaking(m.protocol) {
		if strings.HasPrefix(c.name, "hyper") && m.path != peers.Path {
			continue // it has one answer
		}
		set.names, set.contenders[c.name] = append(set.names, c.name), c
	}
	body := filepath.Join(h.builder.dir, "body")
	if err := os.WriteFile(body, m.body, 0o600); err != nil {
		return nil, err
	}
	var t report.Tally
	names, err := h.rounds(m.name, set.names, func(name string, _ int) error {
		c := set.contenders[name]
		if c.alone {
			rate, err := h.rateAlone(c, m)
			t.Add(name, c.ours, rate, 0)
			return err
		}
		s := set.servers[name]
		if s == nil {
			if s, err = h.startMuxed(c, m); err != nil {
				return err
			}
			set.servers[name] = s
		}
		perCPU, busy, err := h.h2load(h2load, s, m, body)
		t.Add(name, c.ours, perCPU, busy)
		return err
	})
	if err != nil {
		return nil, err
	}
	return []report.Section{{
		Name: m.name, Title: m.title,
		Note: fmt.Sprintf("%s under h2load: %d connections, %d requests in flight on each, %s requests in a round.",
			m.protocol, h2Clients, m.streams, count(m.requests)),
		Columns:   []report.Column{{Name: "requests / CPU-s", Unit: report.PerSecond}, {Name: "CPU ÷ wall", Unit: report.Share}},
		Rows:      t.Rows(names),
		Reference: h.reference(names),
	}}, nil
}

// startMuxed starts a server, and checks it if it is one of gRPC.
func (h *harness) startMuxed(c *contender, m muxed) (*proc.Server, error) {
	s, err := h.start(c, m.protocol, 4096)
	if err != nil || m.protocol != inGRPC {
		return s, err
	}
	if err := run(exec.Command(c.command(serving{})[0], "--check", s.Addr)); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// rateAlone runs a command that does the work itself.
func (h *harness) rateAlone(c *contender, m muxed) (float64, error) {
	argv := c.command(serving{})
	cmd := exec.CommandContext(h.ctx, argv[0], append([]string{
		"--calls", strconv.Itoa(m.requests), "--at-once", strconv.Itoa(h2Clients * m.streams),
	}, argv[1:]...)...)
	cmd.Env = append(os.Environ(), h.environment(c)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := proc.StartOn(h.coresOf(c, m.protocol), cmd); err != nil {
		return 0, err
	}
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, errs.Bytes())
	}
	return strconv.ParseFloat(strings.TrimSpace(out.String()), 64)
}

var succeeded = regexp.MustCompile(`(\d+) succeeded`)

// h2load sends the requests of a round. It returns how many were answered for each second of the server's CPU time,
// and the share of the time in which the server was busy.
func (h *harness) h2load(program string, s *proc.Server, m muxed, body string) (perCPU, busy float64, err error) {
	scheme := "http://"
	if m.protocol == inHTTP2TLS {
		scheme = "https://"
	}
	args := []string{"-n", strconv.Itoa(m.requests), "-c", strconv.Itoa(h2Clients), "-m", strconv.Itoa(m.streams)}
	for _, field := range m.header {
		args = append(args, "-H", field)
	}
	if m.body != nil {
		args = append(args, "-d", body)
	}
	cmd := exec.CommandContext(h.ctx, program, append(args, scheme+s.Addr+m.path)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	used, wall, err := s.Used(func() error {
		if err := proc.StartOn([]int{h.loadCPU}, cmd); err != nil {
			return err
		}
		return cmd.Wait()
	})
	if err != nil {
		return 0, 0, fmt.Errorf("h2load: %w\n%s", err, out.Bytes())
	}
	if found := succeeded.FindSubmatch(out.Bytes()); found == nil || string(found[1]) != strconv.Itoa(m.requests) {
		return 0, 0, fmt.Errorf("h2load: not all requests succeeded\n%s", out.Bytes())
	}
	return float64(m.requests) / used.Seconds(), used.Seconds() / wall.Seconds(), nil
}
