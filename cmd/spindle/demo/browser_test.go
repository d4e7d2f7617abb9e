package demo_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// browser starts a headless Chromium, and returns a context for its first tab.
// Where there is none, the test is skipped; in CI it is installed.
func browser(t *testing.T) context.Context {
	t.Helper()
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

// until waits until an expression is true in the page.
func until(expression string) chromedp.Action {
	// Not by frames: a tab behind another has none.
	return chromedp.Poll(expression, nil, chromedp.WithPollingInterval(20*time.Millisecond))
}

// picture saves what the page looks like, where the environment asks for it.
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

// TestChatInABrowser: two people in two tabs hear each other, and of each other's
// coming and going; what one says is text, whatever it looks like.
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
		t.Errorf("the page says %q of 2 people", state)
	}
	picture(t, ada, "chat")
	closeTab()
	said(ada, `"Bob has left"`)
}

// TestPageInABrowser: the page shows the pulse, what the loop does, and the effect
// of blocking it.
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
		until(`document.getElementById('blocked').textContent.startsWith('answered after')`))
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
		t.Errorf("the page says %q of three sleeps", slept)
	}
	picture(t, ctx, "page")
}
