package demo_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// browser starts a headless Chromium and returns a context for its first tab. If Chromium is
// not installed, the test is skipped; CI installs it.
func browser(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("with -short: starting a browser takes seconds")
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
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(900, 1400))
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	look(t, ctx) // starts it
	return ctx
}

func look(t *testing.T, ctx context.Context, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// until waits until a JavaScript expression is true.
func until(expression string) chromedp.Action {
	// Not polled by frames: a background tab has none.
	return chromedp.Poll(expression, nil, chromedp.WithPollingInterval(20*time.Millisecond))
}

// picture saves a screenshot if the environment asks for it.
func picture(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv("SPINDLE_PICTURES")
	if dir == "" {
		return
	}
	var png []byte
	look(t, ctx, chromedp.FullScreenshot(&png, 100))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestChatInABrowser has two members in two tabs. Each sees the other join, write and leave.
// Markup in a line is shown as text.
func TestChatInABrowser(t *testing.T) {
	ada := browser(t)
	url := serve(t, "", 2)
	bob, closeTab := chromedp.NewContext(ada)
	defer closeTab()
	join := func(ctx context.Context, name string) {
		look(t, ctx,
			chromedp.Navigate(url+"/chat"),
			chromedp.SendKeys("#name", name+"\n"),
			until(`document.querySelector('#lines li') !== null`))
	}
	said := func(ctx context.Context, what string) {
		t.Helper()
		look(t, ctx, until(`[...document.querySelectorAll('#lines li')].some(li => li.textContent === `+what+`)`))
	}
	join(ada, "Ada")
	join(bob, "Bob")
	said(ada, `"Bob is here"`)
	look(t, ada, chromedp.SendKeys("#text", "hello <b>Bob</b>\n"))
	said(bob, `"Adahello <b>Bob</b>"`)
	look(t, bob, chromedp.SendKeys("#text", "hello Ada\n"))
	said(ada, `"Bobhello Ada"`)
	said(ada, `"Adahello <b>Bob</b>"`)

	var state string
	look(t, ada, chromedp.Text("#state", &state))
	if state != "2 people" {
		t.Errorf("the page shows %q for 2 members", state)
	}
	picture(t, ada, "chat")
	closeTab()
	said(ada, `"Bob has left"`)
}

// TestChatEndsWithThePage has a member that navigates away. The member leaves the room even if
// the browser keeps the page, and comes back with the page.
func TestChatEndsWithThePage(t *testing.T) {
	ada := browser(t)
	url := serve(t, "", 1)
	bob, closeTab := chromedp.NewContext(ada)
	defer closeTab()
	count := func(n string) chromedp.Action {
		return until(`document.getElementById('state').textContent === '` + n + `'`)
	}
	look(t, ada, chromedp.Navigate(url+"/chat"), chromedp.SendKeys("#name", "Ada\n"), count("1 person"))
	look(t, bob, chromedp.Navigate(url+"/chat"), chromedp.SendKeys("#name", "Bob\n"), count("2 people"))
	// If the browser keeps the page, its script runs this, and the socket stays open
	// unless the page closes it.
	look(t, bob, chromedp.Evaluate(`dispatchEvent(new PageTransitionEvent('pagehide', {persisted: true}))`, nil))
	look(t, ada, count("1 person"))
	look(t, bob, chromedp.Evaluate(`dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))`, nil))
	look(t, ada, count("2 people"))
	look(t, bob, chromedp.Click("header a"), chromedp.WaitVisible("#pulse"))
	look(t, ada, count("1 person"))
}

// TestPagesFitTheirWindows checks phone and desktop widths: nothing is wider than the window,
// including inside scrollable elements. An empty chat shows what to do.
func TestPagesFitTheirWindows(t *testing.T) {
	ctx := browser(t)
	url := serve(t, "", 1)
	for _, width := range []int64{390, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			for name, path := range map[string]string{"page": "/", "chat": "/chat"} {
				look(t, ctx,
					emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
					chromedp.EmulateViewport(width, 800),
					chromedp.Navigate(url+path))
				if name == "page" {
					look(t, ctx, until(`document.getElementById('stat-turns').textContent !== '–' && answers.length > 3`))
				}
				var wide []string
				look(t, ctx, chromedp.Evaluate(`[...document.querySelectorAll('*')]
					.filter(e => e.getBoundingClientRect().right > innerWidth + 1 || getComputedStyle(e).overflowX === 'auto' && e.scrollWidth > e.clientWidth)
					.map(e => e.tagName + '.' + e.className)`, &wide))
				if len(wide) > 0 {
					t.Errorf("%s is wider than a window of %d pixels: %v", path, width, wide)
				}
				picture(t, ctx, fmt.Sprint(name, "-", width, "-", scheme))
			}
		}
	}
	var empty string
	look(t, ctx, chromedp.Navigate(url+"/chat"), chromedp.Evaluate(`getComputedStyle(document.getElementById('lines'), '::before').content`, &empty))
	if !strings.Contains(empty, "Nothing has been said yet") {
		t.Errorf("an empty chat shows %q", empty)
	}
}

// TestPageInABrowser checks that the page shows response times, the loop's statistics, and
// the effect of blocking the loop.
func TestPageInABrowser(t *testing.T) {
	ctx := browser(t)
	url := serve(t, "", 1)
	look(t, ctx,
		chromedp.Navigate(url),
		until(`document.getElementById('typical').textContent.startsWith('median ')`),
		until(`document.getElementById('stat-turns').textContent !== '–'`),
		chromedp.Click("#say"),
		until(`document.getElementById('said').textContent.startsWith('there and back in')`),
		chromedp.Click("#offload"),
		until(`document.getElementById('blocked').textContent.startsWith('answered after')`),
		until(`document.getElementById('stat-jobs').textContent !== '0'`)) // and stays so
	var calm, blocked float64
	longest := func(ms *float64) chromedp.Action { return chromedp.Evaluate(`Math.max(...answers)`, ms) }
	look(t, ctx,
		longest(&calm),
		chromedp.Click("#block"),
		until(`!document.getElementById('block').disabled && Math.max(...answers) > 500`),
		longest(&blocked))
	if blocked < 500 || calm > blocked {
		t.Errorf("an answer took %.0f ms while the loop was blocked for 700, and %.0f before", blocked, calm)
	}
	var slept string
	look(t, ctx,
		chromedp.Click("#sleep"),
		until(`document.getElementById('slept').textContent.startsWith('all three after')`),
		chromedp.Text("#slept", &slept))
	if !strings.Contains(slept, " ms") {
		t.Errorf("the page shows %q for three sleeps", slept)
	}
	picture(t, ctx, "page")
}
