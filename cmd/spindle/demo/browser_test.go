package demo_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/spindleloop/spindle/cmd/spindle/demo"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/browsertest"
)

// picture saves a screenshot if the environment asks for it.
func picture(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv("SPINDLE_PICTURES")
	if dir == "" {
		return
	}
	var png []byte
	browsertest.Look(t, ctx, chromedp.FullScreenshot(&png, 100))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestChatInABrowser has two members in two tabs. Each sees the other join, write and leave.
// Markup in a line is shown as text.
func TestChatInABrowser(t *testing.T) {
	ada := browsertest.Start(t)
	url := serve(t, "", 2)
	bob, closeTab := chromedp.NewContext(ada)
	defer closeTab()
	join := func(ctx context.Context, name string) {
		browsertest.Look(t, ctx,
			chromedp.Navigate(url+"/chat"),
			chromedp.SendKeys("#name", name+"\n"),
			browsertest.Until(`document.querySelector('#lines li') !== null`))
	}
	said := func(ctx context.Context, what string) {
		t.Helper()
		browsertest.Look(t, ctx, browsertest.Until(`[...document.querySelectorAll('#lines li')].some(li => li.textContent === `+what+`)`))
	}
	join(ada, "Ada")
	join(bob, "Bob")
	said(ada, `"Bob is here"`)
	browsertest.Look(t, ada, chromedp.SendKeys("#text", "hello <b>Bob</b>\n"))
	said(bob, `"Adahello <b>Bob</b>"`)
	browsertest.Look(t, bob, chromedp.SendKeys("#text", "hello Ada\n"))
	said(ada, `"Bobhello Ada"`)
	said(ada, `"Adahello <b>Bob</b>"`)

	var state string
	browsertest.Look(t, ada, chromedp.Text("#state", &state))
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
	ada := browsertest.Start(t)
	url := serve(t, "", 1)
	bob, closeTab := chromedp.NewContext(ada)
	defer closeTab()
	count := func(n string) chromedp.Action {
		return browsertest.Until(`document.getElementById('state').textContent === '` + n + `'`)
	}
	browsertest.Look(t, ada, chromedp.Navigate(url+"/chat"), chromedp.SendKeys("#name", "Ada\n"), count("1 person"))
	browsertest.Look(t, bob, chromedp.Navigate(url+"/chat"), chromedp.SendKeys("#name", "Bob\n"), count("2 people"))
	// If the browser keeps the page, its script runs this, and the socket stays open
	// unless the page closes it.
	browsertest.Look(t, bob, chromedp.Evaluate(`dispatchEvent(new PageTransitionEvent('pagehide', {persisted: true}))`, nil))
	browsertest.Look(t, ada, count("1 person"))
	browsertest.Look(t, bob, chromedp.Evaluate(`dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))`, nil))
	browsertest.Look(t, ada, count("2 people"))
	browsertest.Look(t, bob, chromedp.Click("header a"), chromedp.WaitVisible("#pulse"))
	browsertest.Look(t, ada, count("1 person"))
}

// TestPagesFitTheirWindows checks phone and desktop widths: nothing is wider than the window,
// including inside scrollable elements. An empty chat shows what to do.
func TestPagesFitTheirWindows(t *testing.T) {
	ctx := browsertest.Start(t)
	url := serve(t, "", 1)
	for _, width := range []int64{390, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			for name, path := range map[string]string{"page": "/", "chat": "/chat"} {
				browsertest.Look(t, ctx, browsertest.Window(width, 800, scheme), chromedp.Navigate(url+path))
				if name == "page" {
					browsertest.Look(t, ctx, browsertest.Until(`document.getElementById('stat-turns').textContent !== '–' && answers.length > 3`))
				}
				var wide []string
				browsertest.Look(t, ctx, chromedp.Evaluate(browsertest.Wide, &wide))
				if len(wide) > 0 {
					t.Errorf("%s is wider than a window of %d pixels: %v", path, width, wide)
				}
				picture(t, ctx, fmt.Sprint(name, "-", width, "-", scheme))
			}
		}
	}
	var empty string
	browsertest.Look(t, ctx, chromedp.Navigate(url+"/chat"), chromedp.Evaluate(`getComputedStyle(document.getElementById('lines'), '::before').content`, &empty))
	if !strings.Contains(empty, "Nothing has been said yet") {
		t.Errorf("an empty chat shows %q", empty)
	}
}

// TestPageInABrowser checks that the page shows response times, the loop's statistics, and
// the effect of blocking the loop.
func TestPageInABrowser(t *testing.T) {
	ctx := browsertest.Start(t)
	url := serve(t, "", 1)
	browsertest.Look(t, ctx,
		chromedp.Navigate(url),
		browsertest.Until(`document.getElementById('typical').textContent.startsWith('median ')`),
		browsertest.Until(`document.getElementById('stat-turns').textContent !== '–'`),
		chromedp.Click("#say"),
		browsertest.Until(`document.getElementById('said').textContent.startsWith('there and back in')`),
		chromedp.Click("#offload"),
		browsertest.Until(`document.getElementById('blocked').textContent.startsWith('answered after')`),
		browsertest.Until(`document.getElementById('stat-jobs').textContent !== '0'`)) // and stays so
	var calm, blocked float64
	longest := func(ms *float64) chromedp.Action { return chromedp.Evaluate(`Math.max(...answers)`, ms) }
	browsertest.Look(t, ctx,
		longest(&calm),
		chromedp.Click("#block"),
		browsertest.Until(`!document.getElementById('block').disabled && Math.max(...answers) > 500`),
		longest(&blocked))
	if blocked < 500 || calm > blocked {
		t.Errorf("an answer took %.0f ms while the loop was blocked for 700, and %.0f before", blocked, calm)
	}
	var slept string
	browsertest.Look(t, ctx,
		chromedp.Click("#sleep"),
		browsertest.Until(`document.getElementById('slept').textContent.startsWith('all three after')`),
		chromedp.Text("#slept", &slept))
	if !strings.Contains(slept, " ms") {
		t.Errorf("the page shows %q for three sleeps", slept)
	}
	picture(t, ctx, "page")
}

// TestBlockButtonIsSeenInTheInspector follows the page's link to the inspector and blocks the
// loop with the button. The inspector shows where.
func TestBlockButtonIsSeenInTheInspector(t *testing.T) {
	page := browsertest.Start(t)
	inspector, err := inspect.Serve("127.0.0.1:0", inspect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer inspector.Close()
	url := serveWith(t, demo.Options{Inspector: inspector.Addr().String()}, 1)
	tab, closeTab := chromedp.NewContext(page)
	defer closeTab()
	var link string
	browsertest.Look(t, page, chromedp.Navigate(url), chromedp.Evaluate(`document.querySelector('a[target=spindle-inspector]').href`, &link))
	browsertest.Look(t, tab, chromedp.Navigate(link), browsertest.Until(`document.querySelector('.loop .name')?.textContent === 'web'`))
	// A busy machine may miss a block of 700 ms, so there are several.
	browsertest.Look(t, page, chromedp.Evaluate(`{ const press = () => document.getElementById('block').click(); setInterval(press, 2000); press(); }`, nil))
	row := `[...document.querySelectorAll('.line:not([hidden])')].find(l => l.textContent.includes('demo.go:'))`
	browsertest.Look(t, tab, browsertest.Until(`[...frames.values()].some(f => [...f.loops.values()].some(l => l.wasStuck?.stack?.includes('demo.block')))`),
		chromedp.Evaluate(`show('blocked')`, nil), browsertest.Until(row), chromedp.Evaluate(row+`.click()`, nil),
		browsertest.Until(`[...document.querySelectorAll('#details .stack .fn')].some(e => e.textContent.includes('demo.block'))`))
	picture(t, tab, "inspector-blocked")
}

// TestPageShowsItsProtocol: HTTP/1.1 on a plain port, HTTP/2 over TLS.
func TestPageShowsItsProtocol(t *testing.T) {
	ctx := browsertest.Start(t, chromedp.Flag("ignore-certificate-errors", true))
	made := httptest.NewUnstartedServer(nil)
	made.StartTLS()
	made.Close()
	config := &tls.Config{Certificates: made.TLS.Certificates}
	for url, want := range map[string]string{
		serve(t, "", 1):                        "HTTP/1.1",
		serveTLS(t, demo.Options{}, 1, config): "HTTP/2",
	} {
		browsertest.Look(t, ctx, chromedp.Navigate(url), browsertest.Until(`document.getElementById('protocol').textContent === '`+want+`'`))
	}
}
