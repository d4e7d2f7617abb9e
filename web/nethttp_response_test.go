package web_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// reports writes a handler's observations where the client sees them.
func reports(w http.ResponseWriter, format string, a ...any) { fmt.Fprintf(w, format, a...) }

// framing are handlers that decide themselves how their response ends, or try to.
var framing = []handlerCase{
	{"no length wanted", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Length"] = nil
		io.WriteString(w, "hello")
	}},
	{"chunks wanted", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Transfer-Encoding", "chunked")
		io.WriteString(w, "hello")
	}},
	{"chunks wanted, flushed", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Transfer-Encoding", "chunked")
		w.(http.Flusher).Flush()
		io.WriteString(w, "hello")
	}},
	{"identity wanted", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Transfer-Encoding", "identity")
		io.WriteString(w, "hello")
	}},
	{"identity wanted, declared", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		w.Header().Set("Transfer-Encoding", "identity")
		io.WriteString(w, "hello")
	}},
	{"chunks wanted, declared", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		w.Header().Set("Transfer-Encoding", "chunked")
		io.WriteString(w, "hello")
	}},
	{"empty transfer coding, declared", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		w.Header().Set("Transfer-Encoding", "")
		io.WriteString(w, "hello")
	}},
	{"declared and nothing written", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "5") }},
	{"declared zero", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "0") }},
	{"body to 204", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		if _, err := io.WriteString(w, "hello"); !errors.Is(err, http.ErrBodyNotAllowed) {
			panic(fmt.Sprintf("body to 204: %v", err))
		}
	}},
	{"body to 304", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusNotModified)
		io.WriteString(w, "hello")
	}},
	{"nothing written, but flushed", func(w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush() }},
	{"empty write", func(w http.ResponseWriter, r *http.Request) { w.Write(nil) }},
	{"many small writes", func(w http.ResponseWriter, r *http.Request) {
		for range 1000 {
			io.WriteString(w, "0123456789")
		}
	}},
	{"copied from a reader", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, strings.NewReader(strings.Repeat("x", 100_000)))
	}},
	{"copied from a file", func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open("nethttp_test.go")
		if err != nil {
			panic(err)
		}
		defer f.Close()
		w.Header().Set("Content-Length", "100")
		io.CopyN(w, f, 100)
	}},
	{"a file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "nethttp_test.go") }},
	{"trailer by prefix", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+"X-T", "1")
	}},
	{"trailer declared and not set", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-T, X-U")
		w.(http.Flusher).Flush()
		w.Header().Set("X-U", "2")
	}},
}

// headers are handlers with headers that a server has to look at.
var headers = []handlerCase{
	{"empty encoding", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "")
		io.WriteString(w, "<html>hello")
	}},
	{"no date wanted", func(w http.ResponseWriter, r *http.Request) { w.Header()["Date"] = nil }},
	{"empty type", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "")
		io.WriteString(w, "hello")
	}},
	{"keep-alive said", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "keep-alive") }},
	{"upgrade said", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "Upgrade") }},
	{"header changed after WriteHeader", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-A", "1")
		w.WriteHeader(201)
		w.Header().Set("X-A", "2")
		w.Header().Del("X-B")
	}},
	{"two statuses", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(201)
		w.WriteHeader(500)
	}},
	{"an error behind other headers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1")
		w.Header().Set("Content-Encoding", "gzip")
		http.Error(w, "no", http.StatusConflict)
	}},
	{"sniffed in pieces", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "<ht")
		io.WriteString(w, "ml>hello")
	}},
	{"many values", func(w http.ResponseWriter, r *http.Request) {
		for i := range 50 {
			w.Header().Add("X-N", fmt.Sprint(i))
		}
	}},
}

// using are handlers that use the server or the standard library's wrappers.
var using = []handlerCase{
	{"within a time limit", http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-A", "1")
		io.WriteString(w, "in time")
	}), time.Minute, "late").ServeHTTP},
	{"a stripped prefix", http.StripPrefix("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) })).ServeHTTP},
	{"a controller", func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		reports(w, "%v %v", c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Now().Add(time.Hour)))
		reports(w, " %v", c.Flush())
	}},
	{"body read after its end", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		n, err := r.Body.Read(make([]byte, 1))
		reports(w, "%d %v", n, err)
	}},
	{"body read after Close", func(w http.ResponseWriter, r *http.Request) {
		err := r.Body.Close()
		n, err2 := r.Body.Read(make([]byte, 1))
		if r.ContentLength == 0 {
			err2 = nil // an empty body cannot be closed
		}
		reports(w, "%v %d %v", err, n, err2)
	}},
	{"body set to nil", func(w http.ResponseWriter, r *http.Request) { r.Body = nil }},
	{"hijacked", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		nc, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer nc.Close()
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
			panic(fmt.Sprintf("written after Hijack: %v", err))
		}
		io.WriteString(rw, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
		rw.Flush()
	}},
	{"panics", func(w http.ResponseWriter, r *http.Request) { panic("oops") }},
	{"aborts", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }},
	{"aborts within the body", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}},
	{"addresses", func(w http.ResponseWriter, r *http.Request) {
		_, local := r.Context().Value(http.LocalAddrContextKey).(interface{ Network() string })
		_, server := r.Context().Value(http.ServerContextKey).(*http.Server)
		reports(w, "%v %v %v", r.RemoteAddr != "", local, server)
	}},
	{"multipart", func(w http.ResponseWriter, r *http.Request) {
		err := r.ParseMultipartForm(1)
		reports(w, "%v %v", err, r.PostForm)
	}},
}
