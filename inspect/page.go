package inspect

import (
	_ "embed"
	"net/http"
)

// page is the page of the handler. It makes no requests other than to the API beside it.
//
//go:embed page.html
var page []byte

// pagePolicy allows the page its own script and style, and requests to its own origin.
const pagePolicy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func servePage(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	_, _ = w.Write(page)
}
