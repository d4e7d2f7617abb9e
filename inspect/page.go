package inspect

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net"
	"net/http"
	"strings"
	"sync"
)

// page is the page of the handler. It makes no requests other than to the API beside it.
//
//go:embed page.html
var page string

// pagePolicy returns the policy of the page. It allows the script and the style that are in
// the page, by their hashes, and requests to its own origin. So a name that became markup
// by mistake could not run anything. The page also asks the inspector that it moves to, if
// there is one, whether it can be reached.
func pagePolicy(inspector string) string {
	from := "'self'"
	if _, port, err := net.SplitHostPort(inspector); err == nil {
		from += " http://127.0.0.1:" + port + " http://localhost:" + port
	}
	return "default-src 'none'; " + pageHashes() + "; img-src data:; connect-src " + from + "; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

var pageHashes = sync.OnceValue(func() string {
	return "script-src '" + hashOf("script") + "'; style-src '" + hashOf("style") + "'"
})

// hashOf returns the hash of the content of an element that the page has once.
func hashOf(element string) string {
	_, rest, _ := strings.Cut(page, "<"+element+">")
	content, _, _ := strings.Cut(rest, "</"+element+">")
	sum := sha256.Sum256([]byte(content))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func (h *handler) servePage(w http.ResponseWriter, _ *http.Request) {
	header, text := w.Header(), page
	if h.Recording != nil {
		text = recordedPage()
	}
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", pagePolicy(h.substitute()))
	_, _ = w.Write([]byte(text))
}

// recordedPage returns the page for a recording. The page finds out by an attribute, so that
// it makes no request that fails.
var recordedPage = sync.OnceValue(func() string {
	return strings.Replace(page, `<html lang="en">`, `<html lang="en" data-recorded>`, 1)
})
