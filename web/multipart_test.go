package web_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"runtime"
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
)

// TestMultipartFilesAreRemoved once the handler has returned, however it did.
func TestMultipartFilesAreRemoved(t *testing.T) {
	leak.Check(t, 2<<20)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(100); err != nil {
			t.Error(err)
		}
		files, err := os.ReadDir(dir)
		switch r.URL.Path {
		case "/panic":
			panic(http.ErrAbortHandler)
		case "/exit":
			runtime.Goexit()
		}
		fmt.Fprint(w, len(files), err)
	}) {
		s.ErrorLog = quiet
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"/", "/panic", "/exit"} {
				sv := serve(t, s)
				var form bytes.Buffer
				mw := multipart.NewWriter(&form)
				fw, _ := mw.CreateFormFile("f", "f")
				fw.Write(make([]byte, 100_000))
				mw.Close()
				res, err := client(t).Post(url(sv, path), mw.FormDataContentType(), &form)
				if path == "/" {
					if err != nil {
						t.Fatal(err)
					}
					if body, _ := io.ReadAll(res.Body); string(body) != "1 <nil>" {
						t.Errorf("inside the handler: %s", body)
					}
					res.Body.Close()
				}
				if err := sv.Shutdown(t.Context()); err != nil { // a task may still be at it
					t.Error(err)
				}
				if files, err := os.ReadDir(dir); len(files) > 0 || err != nil {
					t.Errorf("%s: left behind: %v, %v", path, files, err)
				}
			}
		})
	}
}
