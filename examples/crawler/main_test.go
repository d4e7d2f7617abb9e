package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// site serves handler until the test ends. Then it closes the client's idle connections.
func site(t *testing.T, handler http.Handler) string {
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	return server.URL
}

func newCrawler(limit int, out *strings.Builder) *crawler {
	return &crawler{limiter: cosync.NewLimiter(limit), seen: map[string]bool{}, out: out}
}

func TestEveryPageIsVisitedOnce(t *testing.T) {
	pages := map[string]string{
		"/":       `<a href="/a">a</a> <a href="/b">b</a> <a href="http://elsewhere.invalid/">elsewhere</a>`,
		"/a":      `<a href="b">b</a> <a href="/">home</a> <a href="/broken">gone</a>`,
		"/b":      `<a href="/c#part">c</a> <a href="/c">c again</a>`,
		"/c":      `<a href="/c">itself</a>`,
		"/hidden": `nothing leads here`,
	}
	url := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, body)
	}))
	var out strings.Builder
	err := spindle.Run(t.Context(), func(ctx context.Context) error { return newCrawler(2, &out).crawl(ctx, url+"/") })
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(strings.ReplaceAll(out.String(), url, ""), "\n"), "\n")
	slices.Sort(got)
	if want := []string{"/ <nil>", "/a <nil>", "/b <nil>", "/broken 404 Not Found", "/c <nil>"}; !slices.Equal(got, want) {
		t.Errorf("visited %q; want %q", got, want)
	}
}

// TestTheLimitIsReachedAndKept has a server that holds requests until the limit is
// reached. By then every other task must wait for the limiter.
func TestTheLimitIsReachedAndKept(t *testing.T) {
	const limit, pages = 3, 12
	var out strings.Builder
	c := newCrawler(limit, &out)
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		var mu sync.Mutex
		inside, received, most := 0, 0, 0
		all := make(chan struct{})
		url := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				for page := range pages {
					fmt.Fprintf(w, `<a href="/%d">`, page)
				}
				return
			}
			mu.Lock()
			inside++
			received++
			most = max(most, inside)
			last := received == limit
			mu.Unlock()
			if last {
				spindle.CallOn(r.Context(), l, func(context.Context) (any, error) {
					if got, want := c.limiter.Statistics(), (cosync.Statistics{Capacity: limit, Used: limit, Waiting: pages - limit}); got != want {
						t.Errorf("the limiter has %+v; want %+v", got, want)
					}
					return nil, nil
				})
				close(all)
			}
			select {
			case <-all:
			case <-t.Context().Done():
			}
			mu.Lock()
			inside--
			mu.Unlock()
		}))
		if err := c.crawl(ctx, url+"/"); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if received != pages || most > limit {
			t.Errorf("%d requests, at most %d at once; want %d and %d", received, most, pages, limit)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCancellingAbortsRequests has a server that answers only after the request was
// aborted.
func TestCancellingAbortsRequests(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		var out strings.Builder
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			url := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				l.Post(func() { s.Cancel(nil) })
				<-r.Context().Done()
			}))
			err := newCrawler(1, &out).crawl(ctx, url)
			if canceled := (*spindle.Canceled)(nil); !errors.As(err, &canceled) || canceled.Scope != s || out.Len() > 0 {
				t.Errorf("ended with %v and printed %q; want the cancellation of its scope", err, out.String())
			}
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}
