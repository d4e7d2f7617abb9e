package inspect_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/web"
)

// A handler that is mounted on the loop that it inspects must not wait for that loop, in
// whatever way it runs.
func TestHandlerWorksWhereverItIsMounted(t *testing.T) {
	h := inspect.Handler(inspect.Options{})
	mux := http.NewServeMux()
	mux.Handle("/debug/spindle/", h)
	mux.Handle("/inline/", web.Inline(h))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ask := func(url string) (wrong string) {
		t.Helper()
		res, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var a inspect.SnapshotAnswer
		if err := json.NewDecoder(res.Body).Decode(&a); err != nil || res.StatusCode != 200 || len(a.Loops) == 0 || len(a.Tasks) == 0 {
			return fmt.Sprintf("%s: %s, %d loops and %d tasks (%v)", url, res.Status, len(a.Loops), len(a.Tasks), err)
		}
		for _, l := range a.Loops {
			if l.Name == "mounted" && l.Stale {
				return url + ": the loop did not answer"
			}
		}
		return ""
	}
	check := func(url string) {
		t.Helper()
		wrong := ""
		until.Tried(func() bool {
			wrong = ask(url)
			return wrong == ""
		})
		if wrong != "" {
			t.Error(wrong)
		}
	}
	serving(t, "mounted", mux, func(addr string) {
		check("http://" + addr + "/debug/spindle/api/v1/snapshot")
		check("http://" + addr + "/inline/api/v1/snapshot")
		standard := httptest.NewServer(mux)
		defer standard.Close()
		check(standard.URL + "/debug/spindle/api/v1/snapshot")
	})
}
