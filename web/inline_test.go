package web_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"

	"github.com/spindleloop/spindle/web"
)

// TestGoexitEndsOnlyItsOwnRequest: inline handlers of other requests on the loop do
// not notice.
func TestGoexitEndsOnlyItsOwnRequest(t *testing.T) {
	waits := make(chan bool, 1)
	sv := serve(t, &web.Server{ErrorLog: quiet, Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/exit" {
			runtime.Goexit()
		}
		waits <- true
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v", body, err)
	}))})
	nc, br := dial(t, sv)
	io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
	<-waits
	other, _ := dial(t, sv)
	io.WriteString(other, "GET /exit HTTP/1.1\r\nHost: a\r\n\r\n")
	if all, _ := io.ReadAll(other); len(all) > 0 {
		t.Errorf("got %q", all)
	}
	io.WriteString(nc, "hello")
	if _, body := response(t, br, "POST"); body != "hello <nil>" {
		t.Errorf("the other request: %s", body)
	}
}
