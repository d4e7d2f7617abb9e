package web_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/web"
)

// TestHTTP2EmptyFields sends headers with hundreds of fields that have neither a name nor a
// value (CVE-2019-9516).
func TestHTTP2EmptyFields(t *testing.T) {
	p := dialPeer(t, calmServer(t, quick))
	empty := bytes.Repeat([]byte{0, 0, 0}, 500)
	code := attack(p, func(i int) []byte { return appendFrame(nil, headersFrame, endStream|endHeaders, uint32(2*i+1), empty) })
	if code != http2.EnhanceYourCalm {
		t.Errorf("got %v", code)
	}
}

// TestHTTP2SelfDependency makes streams depend on themselves, in PRIORITY and in HEADERS.
func TestHTTP2SelfDependency(t *testing.T) {
	for name, frames := range map[string]func(p *peer) func(int) []byte{
		"PRIORITY": func(*peer) func(int) []byte {
			return repeated(appendFrame(nil, priorityFrame, 0, 1, []byte{0, 0, 0, 1, 1}))
		},
		"HEADERS": func(p *peer) func(int) []byte {
			first := p.request("GET", "/")
			rest := p.request("GET", "/")
			return func(i int) []byte {
				id, block := uint32(2*i+1), rest
				if i == 0 {
					block = first
				}
				return appendFrame(nil, headersFrame, endStream|endHeaders|0x20, id, append(append(number(id), 1), block...))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := dialPeer(t, calmServer(t, quick))
			if code := attack(p, frames(p)); code != http2.EnhanceYourCalm {
				t.Errorf("got %v", code)
			}
		})
	}
}

// TestHTTP2UpgradeSmuggling asks for an upgrade to h2c on a connection of HTTP/1.1, as for a proxy
// that does not look at it. The request is answered as one of HTTP/1.1, and the frames after
// it are not read as HTTP/2.
func TestHTTP2UpgradeSmuggling(t *testing.T) {
	paths := make(chan string, 10)
	sv := serve(t, plainHTTP2(&web.Server{ErrorLog: discard(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths <- r.Proto + " " + r.URL.Path
		io.WriteString(w, "ok")
	})}))
	nc, err := net.Dial("tcp", sv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprintf(nc, "GET /first HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
	io.WriteString(nc, http2.Preface)
	nc.Write(appendFrame(nil, settingsFrame, 0, 0, nil))
	br := bufio.NewReader(nc)
	res, err := http.ReadResponse(br, nil)
	if err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Upgrade") != "" {
		t.Fatalf("got %v, %v", res, err)
	}
	io.Copy(io.Discard, res.Body)
	rest, _ := io.ReadAll(br)
	if !strings.HasPrefix(string(rest), "HTTP/1.1 4") && !strings.HasPrefix(string(rest), "HTTP/1.1 5") {
		t.Errorf("got %q", rest)
	}
	if got := <-paths; got != "HTTP/1.1 /first" {
		t.Errorf("got %q", got)
	}
	select {
	case got := <-paths:
		t.Errorf("a second request: %q", got)
	default:
	}
}

// TestHTTP2InvalidFieldsOfAHandler: a response with a field that cannot be sent is replaced.
func TestHTTP2InvalidFieldsOfAHandler(t *testing.T) {
	for _, field := range [][2]string{{"with space", "v"}, {"", "v"}, {":status", "204"}, {"X", "a\nb"}} {
		for name, s := range kinds(func(w http.ResponseWriter, _ *http.Request) { w.Header()[field[0]] = []string{field[1]} }) {
			s.ErrorLog = discard()
			if res, _ := get(t, clientHTTP2(t), url(serve(t, plainHTTP2(s)), "/")); res.StatusCode != http.StatusInternalServerError {
				t.Errorf("%s, %q: got %v", name, field, res.Status)
			}
		}
	}
}
