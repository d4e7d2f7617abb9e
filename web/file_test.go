package web_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
)

// files makes a folder with a small and a large file.
func files(t testing.TB) (dir string, large []byte) {
	dir = t.TempDir()
	large = bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MB
	for name, data := range map[string][]byte{"small.txt": []byte("small"), "large.bin": large} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, large
}

func TestFileServer(t *testing.T) {
	dir, large := files(t)
	for name, s := range kinds(http.FileServer(http.Dir(dir)).ServeHTTP) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			c := client(t)
			if res, body := get(t, c, url(sv, "/small.txt")); body != "small" || res.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("small: %q %v", body, res.Header)
			}
			if res, body := get(t, c, url(sv, "/large.bin")); body != string(large) || res.ContentLength != int64(len(large)) {
				t.Errorf("large: %d bytes of %d", len(body), res.ContentLength)
			}
			if res, _ := get(t, c, url(sv, "/none")); res.StatusCode != 404 {
				t.Errorf("none: %d", res.StatusCode)
			}
			for spec, want := range map[string]struct {
				status int
				body   []byte
			}{
				"bytes=0-9":          {206, large[:10]},
				"bytes=100-":         {206, large[100:]},
				"bytes=-7":           {206, large[len(large)-7:]},
				"bytes=99999999-":    {416, nil},
				"bytes=20000-900000": {206, large[20000:900001]},
			} {
				req, _ := http.NewRequest("GET", url(sv, "/large.bin"), nil)
				req.Header.Set("Range", spec)
				res, err := c.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(res.Body)
				res.Body.Close()
				if res.StatusCode != want.status || want.body != nil && !bytes.Equal(body, want.body) {
					t.Errorf("%s: %d, %d bytes", spec, res.StatusCode, len(body))
				}
			}
			res, err := c.Head(url(sv, "/large.bin"))
			if err != nil || res.ContentLength != int64(len(large)) {
				t.Errorf("HEAD: %v, %v", res, err)
			}
			res.Body.Close()
		})
	}
}

// TestFilesAreSentByTheSystem checks that the writer is an io.ReaderFrom for files of a
// declared length, and needs no memory of their size.
func TestFilesAreSentByTheSystem(t *testing.T) {
	dir, large := files(t)
	moved := make(chan string, 1)
	sv := serve(t, &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(filepath.Join(dir, "large.bin"))
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		f.Seek(100, io.SeekStart)
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", fmt.Sprint(len(large)-200+3))
		n, err := io.CopyN(w, f, int64(len(large)-200))
		at, _ := f.Seek(0, io.SeekCurrent)
		io.WriteString(w, "end")
		moved <- fmt.Sprint(n, err, at)
	})})
	_, body := get(t, client(t), url(sv, "/"))
	if body != string(large[100:len(large)-100])+"end" {
		t.Errorf("%d bytes", len(body))
	}
	if got, want := <-moved, fmt.Sprint(len(large)-200, nil, len(large)-100); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestClientThatLeavesDuringAFile checks that nothing is reported as lost when the server is
// shut down and the loop closed while a worker may still be sending.
func TestClientThatLeavesDuringAFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "huge.bin")
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 64<<20); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		t.Run("", func(t *testing.T) {
			sv := serve(t, &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.ServeFile(w, r, name)
			})})
			nc, br := dial(t, sv)
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			io.CopyN(io.Discard, br, 10_000)
			nc.Close()
		}) // serve's clean-up closes the loop
	}
}

// TestReaderFromWithoutALength checks that sources that are no files, or of unknown length,
// are copied.
func TestReaderFromWithoutALength(t *testing.T) {
	dir, large := files(t)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(filepath.Join(dir, "large.bin"))
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if n, err := io.Copy(w, f); n != int64(len(large)) || err != nil {
			t.Errorf("copied %d, %v", n, err)
		}
	}) {
		t.Run(name, func(t *testing.T) {
			res, body := get(t, client(t), url(serve(t, s), "/"))
			if body != string(large) || res.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%d bytes, %v", len(body), res.Header)
			}
		})
	}
}

// TestFileThatShrinks: the next response does not look like the rest of the file.
func TestFileThatShrinks(t *testing.T) {
	const size = 100_000
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	shrink := func() { // after the handler has looked at the size, and before the loop does
		for stacks := make([]byte, 1<<20); !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("web.(*response).sendFile")); {
		}
		if err := os.Truncate(name, 10); err != nil {
			t.Error(err)
		}
	}
	sv, err := (&web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/next" {
			io.WriteString(w, "next")
			return
		}
		f, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", strconv.Itoa(size))
		if err := l.Post(shrink); err != nil {
			t.Error(err)
		}
		if n, err := io.CopyN(w, f, size); err == nil {
			t.Errorf("%d bytes were sent", n)
		}
	})}).Listen(l, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- l.Run(context.Background()) }()
	nc, br := dial(t, sv)
	if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if all, _ := io.ReadAll(br); strings.Contains(string(all), "next") {
		t.Errorf("got %q", all)
	}
	if err := sv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	l.Stop()
	if err := errors.Join(<-ended, l.Close()); err != nil {
		t.Error(err)
	}
}
