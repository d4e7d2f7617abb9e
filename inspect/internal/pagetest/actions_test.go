package pagetest_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	. "github.com/spindleloop/spindle/internal/browsertest"
	"github.com/spindleloop/spindle/stream"
)

// press clicks the button with a text in the details, twice: the first click says what the
// second one does.
func press(label, says string) chromedp.Action {
	find := `[...document.querySelectorAll('#details .acts button')].find(b => b.textContent === '` + label + `')`
	return chromedp.Tasks{
		Until(find), chromedp.Evaluate(find+`.click()`, nil),
		Until(`document.querySelector('#details .note').textContent.startsWith('Click again to do it. It ` + says + `')`), chromedp.Evaluate(find+`.click()`, nil),
	}
}

// row clicks the row with a text.
func row(text string) chromedp.Action {
	return chromedp.Tasks{Until(shows(text)), chromedp.Evaluate(`[...document.querySelectorAll('.line:not([hidden])')].find(l => l.textContent.includes('`+text+`')).click()`, nil)}
}

// TestTaskIsCancelledFromThePage cancels a task. The first click only says what the second
// one does.
func TestTaskIsCancelledFromThePage(t *testing.T) {
	ctx := Start(t)
	ended := make(chan error, 1)
	p := start(t, inspect.Options{AllowActions: true}, func(_ context.Context, n *spindle.Nursery) {
		n.GoWith(spindle.TaskOptions{Name: "import"}, func(ctx context.Context) error {
			err := spindle.Sleep(ctx, time.Hour)
			ended <- err
			return err
		})
	})
	Look(t, ctx, chromedp.Navigate(p.url), row("import"), Until(`document.querySelector('#details h2')?.textContent === 'import'`), press("Cancel the task", "would cancel task "),
		Until(`!(`+shows("import")+`)`), Until(shows("order 1")))
	if err := <-ended; err == nil {
		t.Error("the task was not cancelled")
	}
}

// TestConnectionIsClosedFromThePage closes a connection of the program.
func TestConnectionIsClosedFromThePage(t *testing.T) {
	ctx := Start(t)
	listening := make(chan string, 1)
	p := start(t, inspect.Options{AllowActions: true}, func(_ context.Context, n *spindle.Nursery) {
		n.GoWith(spindle.TaskOptions{Name: "server"}, func(ctx context.Context) error {
			ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			listening <- ln.Addr().String()
			return stream.Serve(ctx, ln, func(_ context.Context, c *stream.Conn) error {
				_, _ = c.Read(make([]byte, 1))
				return nil
			})
		})
	})
	client, err := net.Dial("tcp", <-listening)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	Look(t, ctx, chromedp.Navigate(p.url), chromedp.KeyEvent("3"), row(client.LocalAddr().String()), press("Close the connection", "changes the running program"))
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is not closed")
	}
	Look(t, ctx, Until(`!(`+shows(client.LocalAddr().String())+`)`))
}

// TestActionsAreNotOfferedUnlessAllowed looks at a task of a program that allows no actions.
func TestActionsAreNotOfferedUnlessAllowed(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, nil)
	Look(t, ctx, chromedp.Navigate(p.url), row("order 2"), Until(`document.querySelector('#details h2')?.textContent === 'order 2' && document.querySelector('#details .stack')`))
	if eval[bool](t, ctx, `document.querySelector('#details .acts') !== null`) {
		t.Error("the page offers actions")
	}
}

// TestPageLeftOpenForAnHour gives the page what it would receive in an hour, four times in a
// second. What it keeps is bounded.
func TestPageLeftOpenForAnHour(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, nil)
	Look(t, ctx, chromedp.Navigate(p.url), Until(shows("order 3")), Until(`frames.size > 1`))
	kept := eval[map[string]float64](t, ctx, `(() => {
		const nodes = document.querySelectorAll('*').length, loops = [...previous.loops.values()], begin = previous.time;
		const text = JSON.stringify({tasks: 'x'.repeat(100000)});
		for (let i = 1; i <= 4 * 3600; i++) {
			const time = begin + i * 250;
			received({taken_at: new Date(time).toISOString(), process, loops: loops.map(l => ({...l, wasStuck: undefined, turns: i, ready: l.lanes}))});
			if (i % 4 === 0) keep('tasks', 'key ' + i, text, time);
		}
		return {frames: frames.size, text: textKept, more: document.querySelectorAll('*').length - nodes, behind: Object.values(snapshots).reduce((n, l) => n + l.length, 0)};
	})()`)
	if kept["frames"] > 601 || kept["text"] > 24e6+1e6 || kept["more"] > 50 || kept["behind"] > 400 {
		t.Errorf("after an hour the page keeps %v", kept)
	}
	t.Logf("after an hour: %v", kept)
}

// TestPageDoesNotJump watches for parts of the page that move by themselves, while a loop is
// blocked and continues, and while tasks come and go.
func TestPageDoesNotJump(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, func(_ context.Context, n *spindle.Nursery) {
		n.GoWith(spindle.TaskOptions{Name: "short tasks"}, func(ctx context.Context) error {
			for {
				n.GoWith(spindle.TaskOptions{Name: "z short"}, func(ctx context.Context) error { return spindle.Sleep(ctx, 700*time.Millisecond) })
				if err := spindle.Sleep(ctx, 400*time.Millisecond); err != nil {
					return err
				}
			}
		})
	})
	for _, width := range []int64{1280, 390} {
		Look(t, ctx, Window(width, 800, "light"), chromedp.Navigate(p.url), Until(shows("order 3")), Until(`frames.size > 2`),
			chromedp.Evaluate(`window.moved = []; new PerformanceObserver(list => { for (const e of list.getEntries()) moved.push([e.value, ...e.sources.map(s => s.node?.className || s.node?.nodeName)]); }).observe({type: 'layout-shift'});`, nil))
		release := p.block(t)
		Look(t, ctx, Until(`document.querySelector('.loop.blocked') && document.querySelector('#details .stack')`))
		release()
		Look(t, ctx, Until(`!document.querySelector('.loop.blocked')`), Until(`frames.size > 8`))
		if sum := eval[float64](t, ctx, `moved.reduce((sum, m) => sum + m[0], 0)`); sum > 0.05 {
			t.Errorf("at %d pixels parts of the page have moved by %v: %v", width, sum, eval[[]any](t, ctx, `moved`))
		}
	}
}
