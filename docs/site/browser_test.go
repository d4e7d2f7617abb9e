package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/spindleloop/spindle/internal/browsertest"
)

// TestInABrowser looks at the site that .ci/run site has built: light and dark, wide and narrow.
// With go test -artifacts it keeps pictures.
func TestInABrowser(t *testing.T) {
	dir := os.Getenv("SPINDLE_SITE")
	if dir == "" {
		t.Skip("SPINDLE_SITE is not set: it names the directory of a site, which .ci/run site builds")
	}
	ctx := browsertest.Start(t)
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	pictures := t.ArtifactDir()
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1300, 390} {
			for _, page := range []string{"", "guide/tutorial/", "reference/cosync/", "figures/"} {
				name := fmt.Sprintf("%s-%d-%s", scheme, width, strings.ReplaceAll(strings.Trim(page, "/"), "/", "-"))
				var brightness float64
				var broken, wide int
				var picture []byte
				browsertest.Look(t, ctx,
					browsertest.Window(width, 1200, scheme),
					chromedp.Navigate(server.URL+"/"+page),
					browsertest.Until(`document.querySelector('h1') && [...document.images].every(i => i.complete)`),
					chromedp.Evaluate(brightnessOf, &brightness),
					chromedp.Evaluate(`[...document.images].filter(i => !i.naturalWidth).length`, &broken),
					chromedp.Evaluate(`document.scrollingElement.scrollWidth - innerWidth`, &wide),
					chromedp.CaptureScreenshot(&picture),
				)
				if dark := brightness < 0.5; dark != (scheme == "dark") {
					t.Errorf("%s: the brightness of the page is %.2f", name, brightness)
				}
				if broken > 0 || wide > 0 {
					t.Errorf("%s: %d pictures are broken, and the page is %d pixels too wide", name, broken, wide)
				}
				if err := os.WriteFile(filepath.Join(pictures, name+".png"), picture, 0o666); err != nil {
					t.Error(err)
				}
			}
		}
	}
	browsertest.Look(t, ctx,
		browsertest.Window(1300, 1200, "light"),
		chromedp.Navigate(server.URL),
		chromedp.Click(`.md-search__button`, chromedp.NodeVisible),
		browsertest.Until(everything+`.some(e => e.tagName === 'INPUT' && e.matches(':focus'))`),
		chromedp.KeyEvent("WithNursery"),
		browsertest.Until(everything+`.some(e => e.tagName === 'A' && e.textContent.includes('WithNursery'))`),
	)
}

// everything is an expression for all elements of the page, including those of the search, which
// are in a shadow root.
const everything = `(function all(root) {
	return [...root.querySelectorAll('*')].flatMap(e => e.shadowRoot ? [e, ...all(e.shadowRoot)] : [e]);
})(document)`

// brightnessOf is an expression for the brightness of the background, from 0 to 1. The colour may
// be written in several ways, so a canvas reads it.
const brightnessOf = `(() => {
	const c = document.createElement('canvas').getContext('2d');
	c.fillStyle = getComputedStyle(document.body).backgroundColor;
	c.fillRect(0, 0, 1, 1);
	const [r, g, b] = c.getImageData(0, 0, 1, 1).data;
	return (r + g + b) / 765;
})()`
