package inspect_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/inspectapi"
)

// TestOwnSocketsAreLeftOut asks an inspector for sockets: those that it answers on are not the
// program's, and are shown only if their loop is named.
func TestOwnSocketsAreLeftOut(t *testing.T) {
	s, err := inspect.Serve("127.0.0.1:0", inspect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	has := func(path string) bool {
		for _, socket := range get[inspectapi.SocketsAnswer](t, inspect.Options{}, path).Sockets {
			if socket.Local == s.Addr().String() {
				return true
			}
		}
		return false
	}
	own := ""
	for _, l := range get[inspectapi.LoopsAnswer](t, inspect.Options{}, "/api/v1/loops").Loops {
		if l.Inspector {
			own = l.ID
		}
	}
	if has("/api/v1/sockets") || !has("/api/v1/sockets?loop="+own) {
		t.Errorf("the sockets of the inspector's loop %s: in the list of all %v, in its own %v", own, has("/api/v1/sockets"), has("/api/v1/sockets?loop="+own))
	}
}

// TestPagePolicyNamesItsScript checks that the policy has no exception for inline scripts in
// general, and that the page refers to nothing else.
func TestPagePolicyNamesItsScript(t *testing.T) {
	r := httptest.NewRequest("GET", "/debug/spindle/", nil)
	r.RemoteAddr, r.Host = "127.0.0.1:1234", "localhost:6061"
	w := httptest.NewRecorder()
	inspect.Handler(inspect.Options{}).ServeHTTP(w, r)
	policy, page := w.Header().Get("Content-Security-Policy"), w.Body.String()
	if w.Code != http.StatusOK || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "script-src 'sha256-") || !strings.Contains(policy, "default-src 'none'") {
		t.Errorf("status %d, policy %s", w.Code, policy)
	}
	for _, foreign := range []string{"src=\"http", "href=\"http", "url(", "@import", "innerHTML", "insertAdjacentHTML", "document.write", "eval("} {
		if at := strings.Index(strings.ReplaceAll(page, "url(#arrow", ""), foreign); at >= 0 {
			t.Errorf("the page uses %s: …%.60s…", foreign, page[at:])
		}
	}
}
