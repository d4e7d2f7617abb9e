package web_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/web"
)

var (
	pipelineTime = flag.Duration("pipelines", 0, "how long TestRandomPipelines runs; 0 for a fixed number of pipelines")
	pipelineSeed = flag.Uint64("pipelineseed", 0, "the one pipeline that TestRandomPipelines runs; 0 for many")
)

// TestRandomPipelines sends the same random requests, cut off at the same byte, to a server
// of this package and to one of net/http: the answers are the same, none is missing, and
// nothing hangs or stays. It is short by default. CI also runs
//
//	go test -run TestRandomPipelines -v ./web -pipelines 30s
//
// which is tens of thousands of requests. Use 60s and more after a change of the server.
func TestRandomPipelines(t *testing.T) {
	leak.Check(t, 8<<20)
	web.Linger(t, time.Minute)
	p := newPipelines(t)
	if *pipelineSeed != 0 {
		p.run(t, *pipelineSeed)
		return
	}
	many := uint64(short.Seeds(2500))
	end, patience := time.Now().Add(*pipelineTime), time.Now().Add(10*time.Second)
	base := rand.Uint64() >> 1
	var next, failed atomic.Uint64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for failed.Load() < 10 {
				n := next.Add(1)
				now := time.Now()
				if now.After(end) && (n > many || now.After(patience)) {
					return
				}
				if !p.run(t, base+n) {
					failed.Add(1)
				}
			}
		})
	}
	all.Wait()
	p.close()
	t.Logf("%d pipelines, %d with TLS; %d requests: %d for goroutines, %d inline, %d lean; %d answers", next.Load()-8, p.secured.Load(),
		p.sent.Load(), p.kinds[0].Load(), p.kinds[1].Load(), p.kinds[2].Load(), p.answered.Load())
}

// pipelines are the servers that are compared, each plain and secured.
type pipelines struct {
	ours, theirs   [2]string // addresses
	close          func()
	sent, answered atomic.Int64 // requests
	secured        atomic.Int64 // pipelines
	kinds          [3]atomic.Int64
}

func newPipelines(t *testing.T) *pipelines {
	p := &pipelines{}
	var ends []func()
	for i, secured := range []*tls.Config{nil, tlstest.Identity().Server} {
		sv := serve(t, &web.Server{Handler: pipelineHandler(true), Lean: pipelineLean, TLS: secured, Loops: 1})
		p.ours[i] = sv.Addr().String()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p.theirs[i] = ln.Addr().String()
		if secured != nil {
			ln = tls.NewListener(ln, secured)
		}
		s := &http.Server{Handler: pipelineHandler(false), ErrorLog: log.New(io.Discard, "", 0)}
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		ends = append(ends, func() {
			if err := sv.Shutdown(context.WithoutCancel(t.Context())); err != nil { // also at the end of the test
				t.Error(err)
			}
			s.Close()
			<-served
		})
	}
	p.close = sync.OnceFunc(func() {
		for _, end := range ends {
			end()
		}
	})
	t.Cleanup(p.close)
	return p
}

// pipelineHandler answers in ways that the path names: /kind/how. The kinds that only
// this package has are imitated for net/http.
func pipelineHandler(ours bool) http.Handler {
	h := http.HandlerFunc(servePipelined)
	mux := http.NewServeMux()
	mux.Handle("/worker/", h)
	if ours {
		mux.Handle("/inline/", web.Inline(h))
		return mux
	}
	mux.Handle("/inline/", h)
	mux.HandleFunc("/lean/none", func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 || r.ContentLength > 0 && r.Header.Get("Expect") != "" {
			w.Header().Set("Connection", "close")
		}
		io.WriteString(w, "lean")
	})
	mux.HandleFunc("/lean/all", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, "lean ", len(body))
	})
	return mux
}

func servePipelined(w http.ResponseWriter, r *http.Request) {
	n, err := 0, error(nil)
	switch how := r.URL.Path[len("/worker/"):]; how {
	case "all":
		var body []byte
		body, err = io.ReadAll(r.Body)
		n = len(body)
	case "part":
		n, err = io.ReadFull(r.Body, make([]byte, 100))
	case "close":
		r.Body.Close()
	case "slow":
		if spindle.Current(r.Context()) != nil {
			spindle.Sleep(r.Context(), time.Millisecond)
		} else {
			ctx, cancel := context.WithTimeout(r.Context(), time.Millisecond)
			defer cancel()
			<-ctx.Done()
		}
	case "large":
		if r.ProtoMinor == 0 { // a client could not tell when some of it is missing
			w.Header().Set("Content-Length", "100000")
		}
		io.WriteString(w, strings.Repeat("x", 100_000))
		if r.ProtoMinor == 0 {
			return
		}
	}
	fmt.Fprint(w, r.URL.Path, " ", n, " ", err != nil)
}

var pipelineLean = web.LeanRoutes(map[string]func(*web.LeanCtx){
	"/lean/none": func(c *web.LeanCtx) { c.WriteString("lean") },
	"/lean/all": func(c *web.LeanCtx) {
		c.ReadBody(1<<20, func(c *web.LeanCtx, body []byte) { fmt.Fprint(c, "lean ", len(body)) })
	},
})

// run sends one pipeline to both servers, and reports whether they agree.
func (p *pipelines) run(t *testing.T, seed uint64) bool {
	r := rand.New(rand.NewPCG(seed, 0))
	sent, methods := randomPipeline(r)
	p.sent.Add(int64(len(methods)))
	for i, kind := range []string{" /worker/", " /inline/", " /lean/"} {
		p.kinds[i].Add(int64(strings.Count(sent, kind)))
	}
	secured, leaves := 0, r.IntN(20) == 0
	if r.IntN(5) == 0 {
		secured = 1
		p.secured.Add(1)
	}
	got, err := exchangePipeline(r, p.ours[secured], secured == 1, sent, methods, leaves)
	want, theirErr := exchangePipeline(r, p.theirs[secured], secured == 1, sent, methods, leaves)
	p.answered.Add(int64(len(got)))
	if theirErr != nil && len(got) >= len(want) {
		// Where net/http closes a connection with requests that it has not read, the
		// system may reset it, and the last answers are lost, or some of one.
		whole := max(0, len(want)-1)
		want, theirErr = append(want[:whole], got[whole:]...), nil
	}
	if err == nil && theirErr == nil && (leaves || fmt.Sprint(got) == fmt.Sprint(want)) {
		return true
	}
	t.Errorf("-pipelineseed %d, tls %d:\n got %q, %v\nwant %q, %v\nsent %q", seed, secured, got, err, want, theirErr, shortened(sent))
	return false
}

// shortened leaves out what bodies are made of.
func shortened(s string) string {
	for strings.Contains(s, "xxxxxxxxxxxx") {
		s = strings.ReplaceAll(s, "xxxxxxxxxxxx", "x")
	}
	return s
}

// exchangePipeline sends s in pieces, closes the sending side, and returns the answers up
// to the end of the connection. One that leaves does not wait for them.
func exchangePipeline(r *rand.Rand, address string, secured bool, s string, methods []string, leaves bool) ([]string, error) {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(time.Minute))
	c := halfCloser(nc.(*net.TCPConn))
	if secured {
		c = tls.Client(nc, tlstest.Identity().Client)
	}
	pieces := cutUp(r, s)
	sent := make(chan error, 1)
	go func() {
		for _, piece := range pieces {
			if _, err := io.WriteString(c, piece); err != nil {
				sent <- err // then the reader may not hear of it
				return
			}
			runtime.Gosched()
		}
		sent <- c.CloseWrite()
	}()
	if leaves {
		<-sent
		return nil, nil
	}
	answers, err := readAnswers(bufio.NewReader(c), methods)
	return answers, errors.Join(err, <-sent)
}

// cutUp is s in a few pieces.
func cutUp(r *rand.Rand, s string) (pieces []string) {
	for range r.IntN(5) {
		n := r.IntN(len(s) + 1)
		if r.IntN(2) == 0 {
			n = min(n, r.IntN(200))
		}
		pieces, s = append(pieces, s[:n]), s[n:]
	}
	return append(pieces, s)
}

// readAnswers reads responses until the connection ends. Interim ones depend on timing,
// and are left out.
func readAnswers(br *bufio.Reader, methods []string) (answers []string, err error) {
	for {
		method := "GET"
		if len(answers) < len(methods) {
			method = methods[len(answers)]
		}
		if _, err := br.Peek(1); err == io.EOF {
			return answers, nil
		} else if err != nil {
			return answers, err
		}
		res, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			return answers, err
		}
		if res.StatusCode < 200 {
			continue
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return answers, err
		}
		if res.StatusCode == 400 {
			body = nil // says why, in words of its own
		}
		answers = append(answers, fmt.Sprintf("%d %s", res.StatusCode, shortened(string(body))))
	}
}

// randomPipeline returns some requests, perhaps cut off at some byte, and the methods of
// the requests with a complete header.
func randomPipeline(r *rand.Rand) (s string, methods []string) {
	var b strings.Builder
	var starts []int
	for range 1 + r.IntN(8) {
		starts = append(starts, b.Len())
		methods = append(methods, randomRequest(r, &b))
	}
	s = b.String()
	cut := len(s)
	switch r.IntN(3) {
	case 1:
		cut = r.IntN(len(s) + 1)
	case 2:
		cut = max(0, len(s)-r.IntN(200)) // in the last one
	}
	for i, start := range starts {
		if start > 0 && cut-start < 4 && cut > start {
			cut = start // net/http does not answer so little of a request that is not the first
		}
		if start >= cut || !strings.Contains(s[start:cut], "\r\n\r\n") {
			return s[:cut], methods[:i]
		}
	}
	return s[:cut], methods
}

func randomRequest(r *rand.Rand, b *strings.Builder) (method string) {
	path := []string{"/worker/", "/inline/"}[r.IntN(2)] + []string{"all", "part", "none", "close", "slow", "large"}[r.IntN(6)]
	if r.IntN(4) == 0 {
		path = []string{"/lean/none", "/lean/all"}[r.IntN(2)]
	}
	method, version, ending := "GET", "1.1", ""
	switch r.IntN(30) {
	case 0:
		ending = "Connection: close\r\n"
	case 1:
		version = "1.0"
	case 2:
		method = "HEAD"
	}
	form := r.IntN(4)
	if form == 0 || method == "HEAD" || version == "1.0" {
		fmt.Fprintf(b, "%s %s HTTP/%s\r\nHost: a\r\n%s\r\n", method, path, version, ending)
		return method
	}
	// What a handler has read in part after a 100 is skipped here, and ends the
	// connection of net/http.
	if r.IntN(8) == 0 && !strings.HasSuffix(path, "/part") {
		ending += "Expect: 100-continue\r\n"
	}
	size := r.IntN(300)
	switch r.IntN(40) {
	case 0:
		size = r.IntN(400_000)
	case 1, 2, 3:
		size = r.IntN(40_000)
	}
	if form == 1 {
		fmt.Fprintf(b, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n%s\r\n%s", path, size, ending, strings.Repeat("x", size))
		return "POST"
	}
	fmt.Fprintf(b, "POST %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n%s\r\n", path, ending)
	for size > 0 {
		n := min(size, 1+r.IntN(size+1))
		fmt.Fprintf(b, "%x\r\n%s\r\n", n, strings.Repeat("x", n))
		size -= n
	}
	if form == 2 && r.IntN(10) == 0 && !strings.HasPrefix(path, "/lean") {
		b.WriteString("z") // no chunk
	}
	b.WriteString("0\r\n\r\n")
	return "POST"
}
