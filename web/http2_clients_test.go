package web_test

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// run runs a command that .ci/run installs.
func run(t testing.TB, stdin string, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// TestHTTP2Clients asks the server with programs that share no code with it.
func TestHTTP2Clients(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %d %v", r.Proto, r.Method, len(body), err)
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 1<<20)) })
	server, _ := certified(t)
	for name, s := range kinds(mux.ServeHTTP) {
		plainHTTP2(s)
		plain := serve(t, s)
		t.Run(name+"/curl", func(t *testing.T) {
			if got := curl(t, "--http2-prior-knowledge", url(plain, "/echo")); got != "HTTP/2.0 GET 0 <nil>" {
				t.Errorf("got %q", got)
			}
			if got := run(t, strings.Repeat("x", 2<<20), "curl", "-sS", "--max-time", "20", "--http2-prior-knowledge", "--data-binary", "@-", url(plain, "/echo")); got != "HTTP/2.0 POST 2097152 <nil>" {
				t.Errorf("got %q", got)
			}
			if got := curl(t, "--http2-prior-knowledge", "--head", url(plain, "/large")); !strings.HasPrefix(got, "HTTP/2 200") {
				t.Errorf("got %q", got)
			}
		})
		t.Run(name+"/nghttp", func(t *testing.T) {
			if got := run(t, "", "nghttp", "-v", "-n", "-m", "20", url(plain, "/large")); strings.Count(got, "; END_STREAM") < 20 {
				t.Errorf("got %q", got)
			}
		})
		t.Run(name+"/h2load", func(t *testing.T) {
			if got := run(t, "", "h2load", "-n", "2000", "-c", "8", "-m", "16", url(plain, "/echo")); !strings.Contains(got, "2000 succeeded, 0 failed") {
				t.Errorf("got %q", got)
			}
		})
		t.Run(name+"/node", func(t *testing.T) {
			const script = `
				const c = require("http2").connect("http://" + process.argv[1]);
				let left = 20;
				for (let i = 0; i < 20; i++) {
					const r = c.request({":method": "POST", ":path": "/echo"});
					let text = "";
					r.setEncoding("utf8");
					r.on("data", d => text += d);
					r.on("end", () => { if (text !== "HTTP/2.0 POST 100000 <nil>") throw new Error(text); if (!--left) { console.log("ok"); c.close() } });
					r.end("x".repeat(100000));
				}`
			if got := run(t, "", "node", "-e", script, plain.Addr().String()); got != "ok\n" {
				t.Errorf("got %q", got)
			}
		})
	}
	for name, s := range kinds(mux.ServeHTTP) {
		s.TLS = server
		sv := serve(t, s)
		t.Run(name+"/httpx over TLS", func(t *testing.T) {
			const python = "/usr/bin/python3" // Debian's, which has the packages that .ci/run installs
			if exec.Command(python, "-c", "import httpx, h2").Run() != nil {
				t.Skip("httpx with HTTP/2 is not installed; on Debian: apt-get install python3-httpx python3-h2")
			}
			const script = `
import asyncio, httpx, sys
async def main():
    async with httpx.AsyncClient(http1=False, http2=True, verify=False, base_url=sys.argv[1], timeout=30) as c:
        some = await asyncio.gather(*(c.post("/echo", content=b"x" * 100000) for _ in range(20)))
        print({(r.http_version, r.text) for r in some}, len((await c.get("/large")).content))
asyncio.run(main())`
			if got := run(t, "", python, "-c", script, "https://"+sv.Addr().String()); got != "{('HTTP/2', 'HTTP/2.0 POST 100000 <nil>')} 1048576\n" {
				t.Errorf("got %q", got)
			}
		})
		t.Run(name+"/curl over TLS", func(t *testing.T) {
			if got := curl(t, "--http2", "--insecure", "https://"+sv.Addr().String()+"/echo"); got != "HTTP/2.0 GET 0 <nil>" {
				t.Errorf("got %q", got)
			}
		})
	}
}
