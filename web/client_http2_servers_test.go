package web_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
)

// nodeServer answers with what it has received, and with a trailer.
const nodeServer = `
	const server = require("http2").createServer();
	server.on("stream", (stream, headers) => {
		let n = 0;
		stream.on("data", d => n += d.length);
		stream.on("end", () => {
			stream.additionalHeaders({":status": 103, link: "</a>"});
			stream.respond({":status": 200}, {waitForTrailers: true});
			stream.on("wantTrailers", () => stream.sendTrailers({"x-sum": String(n)}));
			stream.end(headers[":path"] === "/large" ? Buffer.alloc(1 << 20, "x") : headers[":method"] + " " + n);
		});
	});
	server.listen(0, "127.0.0.1", () => console.log(server.address().port));`

// TestTransportHTTP2ToNode makes requests to Node's server.
func TestTransportHTTP2ToNode(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("node"); err != nil || testing.Short() {
		t.Skip("Node is not installed, or -short")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "-e", nodeServer)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	base := "http://127.0.0.1:" + strings.TrimSpace(port)
	tasks(t, func(ctx context.Context) {
		c := &http.Client{Transport: &web.Transport{Protocols: h2c()}}
		err := spindle.ForEach(ctx, 10, make([]int, 20), func(ctx context.Context, _ int) error {
			res, got, err := do(ctx, c, "POST", base+"/", bytes.NewReader(block(300_000)))
			if err == nil && (got != "POST 300000" || res.Trailer.Get("X-Sum") != "300000") {
				err = fmt.Errorf("got %q and %v", got, res.Trailer)
			}
			if err == nil {
				if _, got, err = do(ctx, c, "GET", base+"/large", nil); err == nil && len(got) != 1<<20 {
					err = fmt.Errorf("got %d bytes", len(got))
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		c.CloseIdleConnections()
	})
}

// TestTransportHTTP2ToNghttpd makes requests to the server of nghttp2.
func TestTransportHTTP2ToNghttpd(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("nghttpd"); err != nil || testing.Short() {
		t.Skip("nghttpd is not installed, or -short")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "large"), block(1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0") // nghttpd does not choose a port
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().(*net.TCPAddr)
	ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nghttpd", "--no-tls", "-a", "127.0.0.1", "-d", dir, "--echo-upload", fmt.Sprint(addr.Port))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for { // until it listens
		c, err := net.Dial("tcp", addr.String())
		if err == nil {
			c.Close()
			break
		}
		if ctx.Err() != nil {
			t.Fatal("nghttpd does not listen: ", err)
		}
	}
	base := "http://" + addr.String()
	tasks(t, func(ctx context.Context) {
		c := &http.Client{Transport: &web.Transport{Protocols: h2c()}}
		what := string(block(300_000))
		err := spindle.ForEach(ctx, 10, make([]int, 20), func(ctx context.Context, _ int) error {
			_, got, err := do(ctx, c, "POST", base+"/", strings.NewReader(what))
			if err == nil && got != what {
				err = fmt.Errorf("%d bytes came back", len(got))
			}
			if err == nil {
				if _, got, err = do(ctx, c, "GET", base+"/large", nil); err == nil && got != string(block(1<<20)) {
					err = fmt.Errorf("got %d bytes", len(got))
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		c.CloseIdleConnections()
	})
}
