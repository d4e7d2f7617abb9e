package relaydemo_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/spindleloop/spindle/internal/browsertest"
)

// shows waits until an element has a text.
func shows(id, text string) chromedp.Action {
	return browsertest.Until(fmt.Sprintf("document.getElementById(%q).textContent === %q", id, text))
}

// sendLong sends requests that wait long enough to be seen on a slow machine too. A browser
// has six connections to a server, and the page needs some.
const sendLong = `for (let i = 0; i < 3; i++) fetch('/work?ms=20000', { cache: 'no-store' }); 0`

// TestPageFitsItsWindow checks phone and desktop widths, light and dark, with calls that wait.
// It is the first test with a browser, which often is the only one, because it is quick.
func TestPageFitsItsWindow(t *testing.T) {
	ctx := browsertest.Start(t)
	url := serve(t)
	for _, width := range []int64{390, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			browsertest.Look(t, ctx,
				browsertest.Window(width, 800, scheme),
				chromedp.Navigate(url),
				shows("ready", "ready"),
				chromedp.Evaluate(sendLong, nil),
				browsertest.Until(`Number(document.getElementById('waiting').textContent) > 0 && document.querySelectorAll('#waiters tr').length > 0`))
			var wide []string
			browsertest.Look(t, ctx, chromedp.Evaluate(browsertest.Wide, &wide))
			if len(wide) > 0 {
				t.Errorf("wider than a window of %d pixels: %v", width, wide)
			}
			if dir := os.Getenv("SPINDLE_PICTURES"); dir != "" {
				var png []byte
				browsertest.Look(t, ctx, chromedp.FullScreenshot(&png, 100))
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("relay-", width, "-", scheme, ".png")), png, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestPageInABrowser sends requests, leaves one, kills a worker and starts it again.
func TestPageInABrowser(t *testing.T) {
	ctx := browsertest.Start(t)
	url := serve(t)
	row := func(n int) string {
		return fmt.Sprintf("document.querySelectorAll('.worker')[%d].textContent", n-1)
	}
	browsertest.Look(t, ctx,
		chromedp.Navigate(url),
		shows("bus", "a test"),
		shows("ready", "ready"),
		chromedp.Click("#send"),
		shows("replied", "10"),
		shows("flight", "0"),
		shows("said", "10 requests were answered, 0 failed."),
		chromedp.Click("#flood"),
		browsertest.Until("Number(document.getElementById('waiting').textContent) > 50"), // a browser has six connections
		shows("flight", "0"),
		shows("said", "110 requests were answered, 0 failed."),
		chromedp.Click("#leave"),
		shows("cancels", "1"),
		shows("waiting", "0"),
		chromedp.Click("[aria-label='Kill worker 1']"),
		browsertest.Until(row(1)+".includes('killed')"),
		browsertest.Until(row(2)+".includes('0 busy')"),
		chromedp.Click("[aria-label='Start worker 1']"),
		browsertest.Until(row(1)+".includes('0 busy')"))
}
