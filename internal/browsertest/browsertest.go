// Package browsertest drives a real browser in tests of pages.
package browsertest

import (
	"context"
	"fmt"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/spindleloop/spindle/internal/short"
)

// started reports whether a test of the package has started a browser.
var started atomic.Bool

// Start starts a headless Chromium and returns a context for its first tab. The test is
// skipped if Chromium is not installed (CI installs it), and with -short. Unless tests do all
// of their work, only the first test of a package has a browser. An exception that a
// script of a page does not catch fails the test. The options are for Chromium.
func Start(t *testing.T, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("with -short: starting a browser takes seconds")
	}
	if started.Swap(true) && !short.Full() {
		t.Skip("without SPINDLE_TEST_FULL=1, only the first test of a package starts a browser")
	}
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium here to look at the pages with; on Debian: apt-get install chromium")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	// The limits of chromedp are too short for a busy machine. That of ctx is enough.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.WindowSize(900, 1400), chromedp.WSURLReadTimeout(time.Minute))
	options = append(options, more...)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithBrowserOption(chromedp.WithDialTimeout(time.Minute)))
	t.Cleanup(cancel)
	chromedp.ListenTarget(ctx, func(event any) {
		if thrown, ok := event.(*runtime.EventExceptionThrown); ok {
			t.Errorf("a script of the page fails: %v", thrown.ExceptionDetails)
		}
	})
	Look(t, ctx) // starts it
	return ctx
}

// Look runs actions in a tab.
func Look(t *testing.T, ctx context.Context, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// Until waits until a JavaScript expression is true. chromedp.Poll would not do: the
// policies of pages forbid to compile text, and a background tab has no frames.
func Until(expression string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		shown := "" // each second, for the error: when ctx has ended, the page cannot be asked any more
		for i := 0; ; i++ {
			var is bool
			err := chromedp.Evaluate("!!("+expression+")", &is).Do(ctx)
			if is {
				return nil
			}
			if err == nil && i%50 == 49 {
				err = chromedp.Evaluate("document.body.innerText.slice(0, 2000)", &shown).Do(ctx)
			}
			if err != nil {
				return fmt.Errorf("waiting until %s: %w; the page shows:\n%s", expression, err, shown)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("waiting until %s: %w; the page shows:\n%s", expression, ctx.Err(), shown)
			}
		}
	})
}

// Window sets the size of the window and the colour scheme: light or dark.
func Window(width, height int64, scheme string) chromedp.Action {
	return chromedp.Tasks{
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.EmulateViewport(width, height),
	}
}

// Wide is an expression for the elements that are wider than the window, including inside
// scrollable elements.
const Wide = `[...document.querySelectorAll('*')]
	.filter(e => e.getBoundingClientRect().right > innerWidth + 1 || getComputedStyle(e).overflowX === 'auto' && e.scrollWidth > e.clientWidth)
	.map(e => e.tagName + '.' + e.className)`
