//go:build spindle_python

package main

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// directory is a directory with files that are served. Nothing outside of it is opened, not
// even through a symbolic link.
type directory string

// open opens a file or a directory. Anything else does not exist: a pipe, for example, would
// block the reader.
func (d directory) open(name string) (*os.File, os.FileInfo, error) {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	f, err := root.OpenFile(cmp.Or(name, "."), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// ServeHTTP sends a file, in compressed form if that stands beside it and the client accepts it.
// A directory is its index.html; its files are not listed.
func (d directory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "405 method not allowed", http.StatusMethodNotAllowed)
		return
	}
	name := r.URL.Path
	if strings.HasSuffix(name, "/") {
		name += "index.html"
	}
	f, info, err := d.open(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer f.Close()
	if info.IsDir() {
		d.redirect(w, r)
		return
	}
	w.Header().Add("Vary", "Accept-Encoding") // also without an encoding: a cache may ask for both
	if !d.serveCompressed(w, r, name) {
		w.Header().Set("ETag", tagOf(info, ""))
		http.ServeContent(w, r, name, info.ModTime(), f)
	}
}

// redirect redirects to a directory, so that links in its index are relative to it.
func (d directory) redirect(w http.ResponseWriter, r *http.Request) {
	index, _, err := d.open(path.Join(r.URL.Path, "index.html"))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	_ = index.Close()
	to := url.URL{Path: path.Base(r.URL.Path) + "/", RawQuery: r.URL.RawQuery}
	w.Header().Set("Location", to.String())
	w.WriteHeader(http.StatusMovedPermanently)
}

// encodings are the compressed forms of a file that may stand beside it, the best first.
var encodings = []struct{ name, suffix string }{{"br", ".br"}, {"zstd", ".zst"}, {"gzip", ".gz"}}

// serveCompressed sends a compressed form of the file. It reports whether there is one that the
// client accepts.
func (d directory) serveCompressed(w http.ResponseWriter, r *http.Request, name string) bool {
	for _, e := range encodings {
		if !accepts(r, e.name) {
			continue
		}
		f, info, err := d.open(name + e.suffix)
		if err != nil {
			continue
		}
		defer f.Close()
		if info.IsDir() {
			continue
		}
		h := w.Header()
		h.Set("Content-Type", cmp.Or(mime.TypeByExtension(path.Ext(name)), "application/octet-stream"))
		h.Set("Content-Encoding", e.name)
		h.Set("Content-Length", strconv.FormatInt(info.Size(), 10)) // ServeContent omits it for an encoding
		h.Set("ETag", tagOf(info, e.name))
		http.ServeContent(w, r, name, info.ModTime(), f)
		return true
	}
	return false
}

// tagOf returns the ETag of a file, or of a compressed form.
func tagOf(info os.FileInfo, encoding string) string {
	return fmt.Sprintf(`"%x-%x%s"`, info.ModTime().UnixNano(), info.Size(), encoding)
}

// accepts reports whether the client accepts an encoding.
func accepts(r *http.Request, encoding string) bool {
	for item := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(item), ";")
		if strings.EqualFold(name, encoding) {
			return !refused(quality)
		}
	}
	return false
}

// refused reports whether the parameters of an encoding are a quality of zero.
func refused(parameters string) bool {
	text, found := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(parameters, " ", "")), "q=")
	q, err := strconv.ParseFloat(text, 64)
	return found && err == nil && q == 0
}

// fileResponse notes what is sent.
type fileResponse struct {
	http.ResponseWriter
	status int
	bytes  int64
	failed bool // the response was not completed
}

func (w *fileResponse) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *fileResponse) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.note(int64(n), err)
	return n, err
}

// ReadFrom lets the system send files.
func (w *fileResponse) ReadFrom(src io.Reader) (int64, error) {
	n, err := w.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
	w.note(n, err)
	return n, err
}

func (w *fileResponse) note(n int64, err error) {
	w.bytes += n
	w.failed = w.failed || err != nil
}

// result returns the status, 0 if the response was not completed, and the bytes of the body.
func (w *fileResponse) result() (status int, bytes int64) {
	switch {
	case w.failed:
		return 0, w.bytes
	case w.status == 0:
		return http.StatusOK, w.bytes
	}
	return w.status, w.bytes
}
