package inspect_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/inspect"
)

func TestForeignRequestsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		header http.Header
		remote string
		o      inspect.Options
		status int
	}{
		"a program on this machine": {status: 200},
		"the page itself":           {header: http.Header{"Origin": {"http://localhost:6061"}, "Sec-Fetch-Site": {"same-origin"}}, status: 200},
		"loopback address as Host":  {header: http.Header{"Host": {"127.0.0.1:6061"}}, status: 200},
		"IPv6 loopback as Host":     {header: http.Header{"Host": {"[::1]:6061"}}, status: 200},
		"another Host":              {header: http.Header{"Host": {"attacker.example:6061"}}, status: 403},
		"a Host that begins alike":  {header: http.Header{"Host": {"localhost.attacker.example"}}, status: 403},
		"an empty Host":             {header: http.Header{"Host": {":6061"}}, status: 403},
		"a Host that is allowed":    {header: http.Header{"Host": {"db1.example"}}, o: inspect.Options{Hosts: []string{"DB1.example"}}, status: 200},
		"another Origin":            {header: http.Header{"Origin": {"http://attacker.example"}}, status: 403},
		"another port as Origin":    {header: http.Header{"Origin": {"http://localhost:80"}}, status: 403},
		"a null Origin":             {header: http.Header{"Origin": {"null"}}, status: 403},
		"two Origins":               {header: http.Header{"Origin": {"http://localhost:6061", "http://localhost:6061"}}, status: 403},
		"another site's script":     {header: http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"no-cors"}}, status: 403},
		"a link on another site":    {header: http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}}, status: 403},
		"a proxy":                   {header: http.Header{"X-Forwarded-For": {"192.0.2.7"}}, status: 403},
		"a proxy by the standard":   {header: http.Header{"Forwarded": {"for=192.0.2.7"}}, status: 403},
		"a proxy that says less":    {header: http.Header{"X-Real-Ip": {"192.0.2.7"}}, o: inspect.Options{Token: "t"}, status: 403},
		"a proxy, allowed":          {header: http.Header{"X-Forwarded-For": {"192.0.2.7"}, "Authorization": {"Bearer t"}}, o: inspect.Options{AllowRemote: true, Token: "t"}, status: 200},
		"another machine":           {remote: "192.0.2.7:999", status: 403},
		"another machine, allowed":  {remote: "192.0.2.7:999", o: inspect.Options{AllowRemote: true, Token: "t"}, header: http.Header{"Authorization": {"Bearer t"}}, status: 200},
		"no token":                  {o: inspect.Options{Token: "secret"}, status: 401},
		"a wrong token":             {o: inspect.Options{Token: "secret"}, header: http.Header{"Authorization": {"Bearer secre"}}, status: 401},
		"another scheme":            {o: inspect.Options{Token: "secret"}, header: http.Header{"Authorization": {"Basic secret"}}, status: 401},
		"the token":                 {o: inspect.Options{Token: "secret"}, header: http.Header{"Authorization": {"Bearer secret"}}, status: 200},
	} {
		for _, path := range []string{"/api/v1/loops", "/debug/spindle/api/v1/tasks", "/metrics"} {
			r := httptest.NewRequest("GET", path, nil)
			r.Host, r.RemoteAddr = "localhost:6061", "127.0.0.1:999"
			for key, values := range c.header {
				r.Header[key] = values
			}
			if host := r.Header.Get("Host"); host != "" {
				r.Host = host
			}
			if c.remote != "" {
				r.RemoteAddr = c.remote
			}
			w := httptest.NewRecorder()
			inspect.Handler(c.o).ServeHTTP(w, r)
			if w.Code != c.status {
				t.Errorf("%s: GET %s is answered with %d, not %d: %s", name, path, w.Code, c.status, w.Body)
			}
		}
	}
}

// A page of another site may link to the inspector's page, and not show it in a frame.
func TestLinksLeadToThePageOnly(t *testing.T) {
	for path, want := range map[string]map[string]int{
		"/":                           {"document": 200, "iframe": 403, "object": 403},
		"/debug/spindle/":             {"document": 200, "iframe": 403, "object": 403},
		"/debug/spindle/api/v1/loops": {"document": 403, "iframe": 403},
		"/api/v1/tasks/":              {"document": 403, "iframe": 403},
		"/metrics":                    {"document": 403, "iframe": 403},
	} {
		for dest, status := range want {
			header := http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {dest}}
			if got, body := request(inspect.Options{}, "GET", path, header); got != status {
				t.Errorf("%s as %s is answered with %d, not %d: %.200s", path, dest, got, status, body)
			}
		}
	}
}

func TestServeBindsToLoopbackOnly(t *testing.T) {
	for _, addr := range []string{":0", "0.0.0.0:0", "192.0.2.1:0", "[::]:0", "nonsense"} {
		if s, err := inspect.Serve(addr, inspect.Options{}); err == nil {
			s.Close()
			t.Errorf("Serve listens on %s", addr)
		}
	}
	if s, err := inspect.Serve("0.0.0.0:0", inspect.Options{AllowRemote: true}); err == nil {
		s.Close()
		t.Error("Serve listens for other machines without a token")
	}
	s, err := inspect.Serve("localhost:0", inspect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if addr := s.Addr().String(); !strings.HasPrefix(addr, "127.0.0.1:") {
		t.Errorf("Serve listens on %s", addr)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestActionsAreOffUnlessAllowed(t *testing.T) {
	yes := http.Header{"Spindle-Action": {"yes"}}
	for _, path := range []string{"/api/v1/cancel?task=1.1", "/api/v1/close?socket=1.f1", "/api/v1/profile?seconds=1", "/api/v1/trace?seconds=1"} {
		if status, body := request(inspect.Options{}, "POST", path, yes); status != 403 {
			t.Errorf("POST %s without AllowActions: %d %s", path, status, body)
		}
		allowed := inspect.Options{AllowActions: true}
		if status, body := request(allowed, "GET", path, yes); status != 405 {
			t.Errorf("GET %s: %d %s", path, status, body)
		}
		if status, body := request(allowed, "POST", path, nil); status != 403 {
			t.Errorf("POST %s without the header: %d %s", path, status, body)
		}
		foreign := http.Header{"Spindle-Action": {"yes"}, "Origin": {"http://attacker.example"}}
		if status, body := request(allowed, "POST", path, foreign); status != 403 {
			t.Errorf("POST %s from another page: %d %s", path, status, body)
		}
	}
}

func TestPageHasAStrictPolicy(t *testing.T) {
	r := httptest.NewRequest("GET", "/debug/spindle/", nil)
	r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
	w := httptest.NewRecorder()
	inspect.Handler(inspect.Options{Token: "secret"}).ServeHTTP(w, r)
	policy := w.Header().Get("Content-Security-Policy")
	if w.Code != 200 || !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("the page is answered with %d and the policy %q", w.Code, policy)
	}
	for _, outside := range []string{"http://", "https://", "src=\"//"} {
		text := bytes.ReplaceAll(w.Body.Bytes(), []byte("http://www.w3.org/"), nil) // the name space of SVG
		if bytes.Contains(text, []byte(outside)) {
			t.Errorf("the page names %s", outside)
		}
	}
}

func FuzzParameters(f *testing.F) {
	f.Add("tasks", "loop=1&state=waiting&q=x&sort=-busy&offset=1&limit=2")
	f.Add("tasks", "sort=tree&parent=1.1&scope=1.s0&nursery=1.nffff")
	f.Add("stack", "task=1.1&force=1")
	f.Add("snapshot", "limit=5000&offset=99999999999999999999")
	f.Add("waits", "loop=%00&q=%ff")
	f.Add("cancel", "scope=1.szz&task=")
	f.Add("close", "socket=1.f")
	f.Add("../../metrics", "")
	f.Fuzz(func(t *testing.T, name, query string) {
		if name == "events" || name == "profile" || name == "trace" {
			return // they take their time
		}
		for _, method := range []string{"GET", "POST"} {
			r := httptest.NewRequest(method, "/", nil)
			r.URL.Path, r.URL.RawQuery = "/api/v1/"+name, query
			r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
			r.Header.Set("Spindle-Action", "yes")
			w := httptest.NewRecorder()
			inspect.Handler(inspect.Options{AllowActions: true}).ServeHTTP(w, r)
			if w.Code >= 500 && w.Code != 503 {
				t.Errorf("%s %s?%s: %d %s", method, name, query, w.Code, w.Body)
			}
			if w.Body.Len() > 1<<22 {
				t.Errorf("%s %s?%s: %d bytes", method, name, query, w.Body.Len())
			}
		}
	})
}
