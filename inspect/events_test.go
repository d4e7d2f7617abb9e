package inspect_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
)

// nextEvent reads an event.
func nextEvent(t *testing.T, r *bufio.Reader) (name, data string) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		switch key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); key {
		case "event":
			name = value
		case "data":
			data = value
		case "":
			return name, data
		}
	}
}

func openEvents(t *testing.T, s *inspect.Server) (*bufio.Reader, func()) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	res, err := client.Get("http://" + s.Addr().String() + "/api/v1/events?every=1")
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("events are answered with %s", res.Status)
	}
	return bufio.NewReader(res.Body), func() { res.Body.Close(); client.CloseIdleConnections() }
}

// Between the first and the eleventh event lies at least a second, whatever the client
// asks for and whatever happens. With -short it is the fourth.
func TestEventsComeAtMostTenTimesASecond(t *testing.T) {
	s, err := inspect.Serve("127.0.0.1:0", inspect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	events, end := openEvents(t, s)
	defer end()
	last := 10
	if testing.Short() {
		last = 3
	}
	began := time.Time{}
	for i := range last + 1 {
		name, data := nextEvent(t, events)
		var a inspectapi.LoopsAnswer
		if err := json.Unmarshal([]byte(data), &a); name != "loops" || err != nil || a.Version != inspectapi.Version || len(a.Loops) == 0 {
			t.Fatalf("event %s %s (%v)", name, data, err)
		}
		if i == 0 {
			began = a.TakenAt
		}
		if took := a.TakenAt.Sub(began); i == last && took < time.Duration(last)*90*time.Millisecond {
			t.Errorf("%d events within %v", last+1, took)
		}
	}
}

func TestBlockedTurnIsAnEvent(t *testing.T) {
	s, err := inspect.Serve("127.0.0.1:0", inspect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	events, end := openEvents(t, s)
	defer end()
	nextEvent(t, events)
	o := spindle.Options{Loop: loop.Options{Name: "blocks", Watchdog: 20 * time.Millisecond, OnBlocked: func(loop.Blocked) {}}}
	seen := make(chan inspectapi.Blocked, 1)
	go func() {
		for {
			name, data := nextEvent(t, events)
			var b inspectapi.Blocked
			if name == "blocked" && json.Unmarshal([]byte(data), &b) == nil && b.Name == "blocks" &&
				strings.HasPrefix(b.Task, "main (") && strings.Contains(b.Stack, "blockUntil") {
				seen <- b
				return
			}
		}
	}()
	err = o.Run(t.Context(), func(ctx context.Context) error {
		return blockUntil(ctx, seen)
	})
	if err != nil {
		t.Error(err)
	}
}

// Clients that send a request for events and never read must not take memory without bound,
// nor keep others from being answered.
func TestThousandSlowClientsAreBounded(t *testing.T) {
	s, err := inspect.Serve("127.0.0.1:0", inspect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run(t, "bystander", func(ctx context.Context, outside func(func())) error {
		var before, after runtime.MemStats
		var conns []net.Conn
		outside(func() {
			get[inspect.SnapshotAnswer](t, inspect.Options{}, "/api/v1/snapshot")
			runtime.GC()
			runtime.ReadMemStats(&before)
			for range 1000 {
				c, err := net.Dial("tcp", s.Addr().String())
				if err != nil {
					break // the system's queue is full
				}
				conns = append(conns, c)
				_, _ = c.Write([]byte("GET /api/v1/events?every=100 HTTP/1.1\r\nHost: localhost\r\n\r\n"))
			}
		})
		// The inspected loop goes on: a thousand waits of it take place meanwhile.
		for range 1000 {
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
		outside(func() {
			var l inspectapi.Loop
			until.Tried(func() bool {
				l = loopNamed(t, "bystander")
				return !l.Stale
			})
			if l.Stale {
				t.Errorf("the loop does not answer: %+v", l)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
				t.Errorf("%d clients take %d bytes", len(conns), grown)
			}
			for _, c := range conns {
				c.Close()
			}
		})
		return nil
	})
}
