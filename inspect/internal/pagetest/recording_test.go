package pagetest_test

import (
	"context"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/inspect"
	. "github.com/spindleloop/spindle/internal/browsertest"
	"github.com/spindleloop/spindle/sim"
)

// recorded runs a simulated world that ends in a deadlock, and serves the page of its recording.
func recorded(t *testing.T) (url string) {
	t.Helper()
	w := sim.NewWorld(7)
	w.InspectEvery = time.Second
	w.Host("ledger").Go(func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "audit"}, func(ctx context.Context) error { return spindle.Sleep(ctx, 30*time.Second) })
			var a, b cosync.Mutex
			transfer := func(from, to *cosync.Mutex) func(context.Context) error {
				return func(ctx context.Context) error {
					if err := from.Lock(ctx); err != nil {
						return err
					}
					defer from.Unlock()
					if err := spindle.Sleep(ctx, time.Minute); err != nil {
						return err
					}
					return to.Lock(ctx)
				}
			}
			n.GoWith(spindle.TaskOptions{Name: "transfer A to B"}, transfer(&a, &b))
			n.GoWith(spindle.TaskOptions{Name: "transfer B to A"}, transfer(&b, &a))
			return nil
		})
	})
	replica := w.Host("replica")
	replica.Serve(func(ctx context.Context) error { return spindle.Sleep(ctx, 50*time.Second) })
	w.After(20*time.Second, replica.Crash)
	if err := w.Run(); !errors.Is(err, sim.ErrDeadlock) {
		t.Fatal(err)
	}
	s, err := inspect.Serve("127.0.0.1:0", inspect.Options{Recording: w.Recording()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + s.Addr().String() + "/"
}

// scrubTo moves the scrubber of a recording to a moment.
func scrubTo(moment string) chromedp.Action {
	return chromedp.Evaluate(`{ const time = document.getElementById('time'); time.value = `+moment+`; time.dispatchEvent(new Event('input', {bubbles: true})); }`, nil)
}

// TestScrubberMovesThroughARecording shows a finished run of a simulated world. Loops, tasks and
// the graph are those of the virtual time that the scrubber is at.
func TestScrubberMovesThroughARecording(t *testing.T) {
	ctx := Start(t)
	loops := `[...document.querySelectorAll('.loop .name')].map(e => e.textContent).join()`
	when := func(text string) chromedp.Action {
		return Until(`document.getElementById('when').textContent === '` + text + `'`)
	}
	Look(t, ctx, Window(1280, 720, "light"), chromedp.Navigate(recorded(t)),
		Until(shows("transfer A to B")), Until(`!(`+shows("audit")+`)`), Until(loops+` === 'ledger'`), when("1:00 min of 1:00 min"),
		Until(`document.getElementById('link').textContent === 'recorded'`), Until(`document.querySelector('#tab-waits .count').textContent === '1'`))
	shot(t, ctx, "recorded-end")
	top := eval[float64](t, ctx, `document.getElementById('tabs').getBoundingClientRect().top`)
	Look(t, ctx, scrubTo("10"), when("10.0 s of 1:00 min"), Until(shows("audit")), Until(loops+` === 'ledger,replica'`),
		chromedp.Evaluate(`[...document.querySelectorAll('.line')].find(l => l.textContent.includes('audit')).click()`, nil),
		Until(`document.querySelector('#details h2')?.textContent === 'audit'`), Until(`document.querySelector('#details').textContent.includes('10.0 s')`))
	if now := eval[float64](t, ctx, `document.getElementById('tabs').getBoundingClientRect().top`); math.Abs(now-top) > 1 {
		t.Errorf("the tabs have moved from %v to %v", top, now)
	}
	shot(t, ctx, "recorded-middle")
	Look(t, ctx, chromedp.Focus("#time"), chromedp.KeyEvent(kb.ArrowRight), when("11.0 s of 1:00 min"), Until(`document.querySelector('#details').textContent.includes('11.0 s')`),
		scrubTo("40"), Until(`document.querySelector('#details h2')?.textContent === 'It is not in the list'`), Until(`!(`+shows("audit")+`)`),
		chromedp.KeyEvent("2"), scrubTo("59"), Until(`document.querySelector('.verdict')?.textContent.endsWith('no cycle.')`),
		scrubTo("60"), Until(`document.querySelectorAll('.node.cycle').length === 4`))
	shot(t, ctx, "recorded-waits")
	press := chromedp.Evaluate(`document.getElementById('live').click()`, nil)
	Look(t, ctx, press, Until(`Number(document.getElementById('time').value) < 50`), Until(`document.getElementById('live').textContent === 'Pause'`),
		press, Until(`document.getElementById('live').textContent === 'Play'`))
}

var shots = flag.String("shots", "", "the `folder` in which to save pictures of the tests, to look at")

// shot saves what the window shows, with -shots.
func shot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	if *shots == "" {
		return
	}
	var picture []byte
	Look(t, ctx, chromedp.CaptureScreenshot(&picture))
	if err := os.WriteFile(filepath.Join(*shots, name+".png"), picture, 0o644); err != nil {
		t.Fatal(err)
	}
}
