package relaysim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/relaysim"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/web"
)

// planes is a world of both languages: a client, a web plane and a bus in Go, two workers of the
// bus and an app of FastAPI in Python.
type planes struct {
	w                         *sim.World
	right, failed, afterwards int // answers; afterwards counts right ones when the faults were over
}

// quietAfter is when every fault has ended, and every connection was made again.
const quietAfter = 14 * time.Second

func newPlanes(t *testing.T, seed uint64) *planes {
	interpreter := os.Getenv("SPINDLE_PYTHON")
	if interpreter == "" {
		t.Skip("set SPINDLE_PYTHON to a Python that has the package spindle, fastapi and uvicorn")
	}
	if out, err := exec.Command(interpreter, "-c", "import spindle.sim, fastapi, uvicorn").CombinedOutput(); err != nil {
		t.Skipf("%s: %s", interpreter, out)
	}
	program := func(function string) sim.Python {
		return sim.Python{Function: "planes:" + function, Dir: "testdata", Interpreter: interpreter, Serve: true}
	}
	p := &planes{w: sim.NewWorld(seed)}
	p.w.Host("bus").Serve(relaysim.Host)
	p.w.Host("web").Serve(serveWeb)
	for _, name := range []string{"worker0", "worker1"} {
		p.w.Host(name).Python(program("worker"))
	}
	p.w.Host("app").Python(program("serve_app"))
	p.w.Host("client").Go(p.ask)
	return p
}

func (p *planes) host(name string) *sim.Host {
	hosts := p.w.Hosts()
	return hosts[slices.IndexFunc(hosts, func(h *sim.Host) bool { return h.Name() == name })]
}

// crash crashes a host after a time, and restarts it later.
func (p *planes) crash(after time.Duration, name string, down time.Duration) {
	p.w.After(after, p.host(name).Crash)
	p.w.After(after+down, p.host(name).Restart)
}

// serveWeb is the web plane: calls to the workers, and requests to the app.
func serveWeb(ctx context.Context) error {
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		bus := relaysim.Connect(n, "bus")
		defer bus.Close()
		caller, err := relay.NewCaller(ctx, bus, relay.CallerOptions{Timeout: time.Second})
		if err != nil {
			return err
		}
		defer caller.Close()
		app, err := url.Parse("http://app")
		if err != nil {
			return err
		}
		mux := http.NewServeMux()
		mux.Handle("/upper", web.Inline(gateway.New(caller, gateway.Route{Subject: "upper", ErrorLog: slog.New(slog.DiscardHandler)})))
		mux.Handle("/app/", web.Inline(&httputil.ReverseProxy{
			Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(app) },
			Transport:    &web.Transport{},
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		}))
		running, err := (&web.Server{Handler: mux}).Listen(spindle.LoopOf(ctx), "tcp", ":80")
		if err != nil {
			return err
		}
		defer running.Close()
		return spindle.Sleep(ctx, math.MaxInt64)
	})
}

// ask sends a request to a worker and one to the app, again and again. An answer is right, or an error
// of the server; after the faults it must be right.
func (p *planes) ask(ctx context.Context) error {
	client := &http.Client{Transport: &web.Transport{}}
	for number := 0; p.w.Now() < quietAfter+2*time.Second; number++ {
		for _, r := range []struct{ path, want string }{{"upper", fmt.Sprint("REQUEST ", number)}, {"app/lower", fmt.Sprint("request ", number)}} {
			quiet := p.w.Now() > quietAfter
			err := spindle.FailAfter(ctx, 3*time.Second, func(ctx context.Context) error {
				return p.post(ctx, client, r.path, fmt.Sprint("Request ", number), r.want)
			})
			switch {
			case errors.Is(err, errWrong), quiet && err != nil:
				return fmt.Errorf("%s at %v: %w", r.path, p.w.Now(), err)
			case err != nil:
				p.failed++
			case quiet:
				p.afterwards++
			default:
				p.right++
			}
		}
		if err := spindle.Sleep(ctx, 400*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

var errWrong = errors.New("the answer is wrong")

func (p *planes) post(ctx context.Context, client *http.Client, path, body, want string) error {
	request, err := http.NewRequestWithContext(ctx, "POST", "http://web/"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode >= 500:
		return errors.New(answer.Status)
	case answer.StatusCode != 200 || string(text) != want:
		return fmt.Errorf("%w: %s %q", errWrong, answer.Status, text)
	}
	return nil
}

// TestPythonBehindAWebPlane: workers and an app in Python serve a web plane in Go, in one world. Crashes
// and a partition cost some requests an error of the server, but no request gets a wrong answer, and
// when the faults are over every request is answered. A seed is one run.
func TestPythonBehindAWebPlane(t *testing.T) {
	run := func(seed uint64, faults bool) *planes {
		p := newPlanes(t, seed)
		if faults {
			p.crash(2*time.Second, "worker0", time.Second)
			p.crash(4*time.Second, "app", 1500*time.Millisecond)
			p.w.After(6*time.Second, func() { p.w.Partition(p.host("web"), p.host("bus"), p.host("app")) })
			p.w.After(8*time.Second, p.w.Heal)
		}
		if err := p.w.Run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if p.right == 0 || p.afterwards == 0 {
			t.Errorf("seed %d: %d right answers, and %d after the faults", seed, p.right, p.afterwards)
		}
		t.Logf("seed %d: %d right, %d failed, %d right after the faults", seed, p.right, p.failed, p.afterwards)
		return p
	}
	calm := run(1, false)
	if calm.failed > 4 { // until the servers listen
		t.Errorf("%d requests have failed without a fault", calm.failed)
	}
	one, other := run(7, true), run(7, true)
	if one.failed == 0 {
		t.Error("no request has met a fault")
	}
	if one.w.Hash() != other.w.Hash() {
		t.Error("two runs of a seed differ")
	}
}
