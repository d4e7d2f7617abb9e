package relaydemo

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
)

// maxBurst limits the n parameter.
const maxBurst = 1000

// burst is the answer of /burst.
type burst struct {
	OK, Failed int64
}

// serveBurst makes n calls at a time, of 0.5 to 1.5 s each, and answers when all have ended. A
// browser has only six connections to a server: if the page sent the requests itself, most
// would wait in the browser, and so would /health.
func (d *Demo) serveBurst(w http.ResponseWriter, r *http.Request) {
	if refused(w, r) {
		return
	}
	n, err := strconv.Atoi(r.URL.Query().Get("n"))
	if err != nil || n < 1 || n > maxBurst {
		http.Error(w, fmt.Sprintf("n must be a number from 1 to %d", maxBurst), http.StatusBadRequest)
		return
	}
	var ok atomic.Int64
	var calls sync.WaitGroup
	for range n {
		calls.Go(func() {
			one := r.Clone(r.Context())
			one.Method, one.Body = http.MethodGet, http.NoBody
			one.URL.Path, one.URL.RawQuery = "/work", "ms="+strconv.Itoa(500+rand.N(1000))
			answer := outcome{header: http.Header{}, status: http.StatusOK}
			d.call(&answer, one)
			if answer.status == http.StatusOK {
				ok.Add(1)
			}
		})
	}
	calls.Wait()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(burst{ok.Load(), int64(n) - ok.Load()}) // the client may be gone
}

// outcome is a ResponseWriter that keeps only the status.
type outcome struct {
	header http.Header
	status int
}

func (o *outcome) Header() http.Header         { return o.header }
func (o *outcome) WriteHeader(status int)      { o.status = status }
func (o *outcome) Write(p []byte) (int, error) { return len(p), nil }
