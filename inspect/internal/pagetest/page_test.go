package pagetest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/spindleloop/spindle/inspect"
	. "github.com/spindleloop/spindle/internal/browsertest"
)

// shows is an expression for whether a row of the table has a text.
func shows(text string) string {
	return `[...document.querySelectorAll('.line:not([hidden])')].some(l => l.textContent.includes('` + text + `'))`
}

// eval evaluates an expression in the page.
func eval[T any](t *testing.T, ctx context.Context, expression string) (value T) {
	t.Helper()
	Look(t, ctx, chromedp.Evaluate(expression, &value))
	return value
}

func TestTreeShowsTasks(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, nil)
	Look(t, ctx, chromedp.Navigate(p.url), Until(shows("order 3")), Until(`document.querySelector('.loop .name')?.textContent === 'orders'`))
	indents := eval[[]string](t, ctx, `[...document.querySelectorAll('.line:not([hidden])')].map(l => l.getAttribute('aria-level') + ' ' + l.children[0].textContent)`)
	if got := strings.Join(indents, "|"); !strings.Contains(got, "2 desk|3 order 1|3 order 2|3 order 3") {
		t.Errorf("the tree is %s", got)
	}
	// Details of a task, with its stack.
	Look(t, ctx, chromedp.Evaluate(`[...document.querySelectorAll('.line')].find(l => l.textContent.includes('order 2')).click()`, nil),
		Until(`document.querySelector('#details h2')?.textContent === 'order 2'`), Until(`document.querySelector('#details').textContent.includes('Sleep')`))
}

func TestFilterAsksTheProgram(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, many(500))
	Look(t, ctx, chromedp.Navigate(p.url), Until(shows("desk")),
		chromedp.KeyEvent("/"), Until(`document.activeElement.type === 'search'`),
		chromedp.Evaluate(`document.activeElement.value = ''`, nil), // chromedp types the slash even though the page prevents it
		chromedp.KeyEvent("parcel 499"), Until(shows("parcel 499")), Until(`document.querySelector('.total').textContent.startsWith('2 of ')`))
	if eval[bool](t, ctx, shows("desk")) {
		t.Error("rows that do not match are shown; want the match and the task above it")
	}
	Look(t, ctx, chromedp.KeyEvent("x"), Until(`document.querySelector('.empty').textContent.startsWith('Nothing matches')`),
		chromedp.KeyEvent(kb.Escape), Until(shows("desk")))
}

// TestManyTasks scrolls through 100,000 tasks and filters them: the page has rows for a screen
// only, and gets those that come into view.
func TestManyTasks(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, many(100000))
	Look(t, ctx, chromedp.Navigate(p.url), Until(shows("parcel 1")),
		chromedp.Focus(".body"), chromedp.KeyEvent(kb.End), Until(shows("parcel 99999")))
	if rows := eval[int](t, ctx, `document.querySelectorAll('.line').length`); rows > 100 {
		t.Errorf("the page has %d rows", rows)
	}
	Look(t, ctx, Until(`document.querySelector('#details h2')?.textContent === 'parcel 99999'`), chromedp.KeyEvent(kb.ArrowUp), Until(`document.querySelector('#details h2')?.textContent === 'parcel 99998'`),
		chromedp.KeyEvent(kb.Home), Until(shows("desk")),
		chromedp.Evaluate(`views.tasks.search.value = 'parcel 77777'; views.tasks.search.dispatchEvent(new Event('input'))`, nil),
		Until(`document.querySelector('.total').textContent.startsWith('2 of 100,')`), Until(shows("parcel 77777")))
	shot(t, ctx, "many-filtered")
	Look(t, ctx, Until(`document.querySelector('#details .stack') || document.querySelector('#details .acts button')?.textContent === 'Take the stack'`))
	Look(t, ctx, chromedp.Evaluate(`void (chosen.row = {...chosen.row, name: 'stale'})`, nil), Until(`chosen.row.name !== 'stale'`))
}

// TestBlockedLoopShowsItsStack blocks the loop. The page shows the stack while it is blocked,
// and on the scrubber after that.
func TestBlockedLoopShowsItsStack(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, nil)
	Look(t, ctx, chromedp.Navigate(p.url), Until(shows("desk")), Until(`frames.size > 1`))
	release := p.block(t)
	began := time.Now()
	Look(t, ctx, Until(`document.querySelector('.loop.blocked .state')?.textContent.startsWith('blocked for')`),
		Until(`[...document.querySelectorAll('#details .stack .fn')].some(e => e.textContent.includes('blockHere'))`))
	t.Logf("shown %v after the loop was blocked", time.Since(began).Round(time.Millisecond))
	release()
	Look(t, ctx, Until(`!document.querySelector('.loop.blocked')`))
	// Back to the half second in which it was blocked, when that is in the past.
	Look(t, ctx, Until(`[...frames].some(([bucket, f]) => bucket < newest && [...f.loops.values()].some(l => l.wasStuck))`), chromedp.Evaluate(`{
		const bucket = [...frames].find(([, f]) => [...f.loops.values()].some(l => l.wasStuck))[0], time = document.getElementById('time');
		time.value = bucket - newest + 600;
		time.dispatchEvent(new Event('input', {bubbles: true}));
	}`, nil),
		Until(`document.querySelector('.loop.blocked .state')?.textContent.startsWith('blocked for')`),
		Until(`document.getElementById('when').textContent.includes('ago')`),
		Until(`document.querySelector('#details .stack')?.textContent.includes('blockHere')`),
		chromedp.Click("#live"), Until(`!document.querySelector('.loop.blocked') && document.getElementById('when').textContent === 'now'`))
}

// TestDeadlockIsDrawn has tasks that wait for each other's locks. The graph marks the cycle.
func TestDeadlockIsDrawn(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, deadlock)
	Look(t, ctx, chromedp.Navigate(p.url), Until(shows("transfer")), chromedp.KeyEvent("2"),
		Until(`document.querySelectorAll('.node.cycle').length === 4 && document.querySelectorAll('path.cycle').length === 4`),
		Until(`document.querySelector('.verdict').textContent.startsWith('1 cycle')`),
		Until(`[...document.querySelectorAll('.node:not(.cycle)')].some(n => n.textContent.includes('statement of A'))`))
	places := eval[[]string](t, ctx, `[...document.querySelectorAll('.node')].map(n => n.getAttribute('transform'))`)
	slices.Sort(places)
	if len(slices.Compact(slices.Clone(places))) != len(places) || strings.Contains(strings.Join(places, ""), "NaN") {
		t.Errorf("nodes are drawn at %v", places)
	}
	Look(t, ctx, chromedp.Evaluate(`document.querySelector('.node.cycle:not(.object)').dispatchEvent(new MouseEvent('click', {bubbles: true}))`, nil),
		Until(`document.querySelector('#details h2')?.textContent.startsWith('transfer')`), Until(`document.querySelector('#details').textContent.includes('yes: it waits')`))
}

// TestScrubberShowsTasksOfThen pauses the page and looks at tasks that have ended since.
func TestScrubberShowsTasksOfThen(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, nil)
	Look(t, ctx, chromedp.Navigate(p.url), Until(shows("order 1")), Until(`frames.size > 2`), chromedp.Click("#live"),
		Until(`document.getElementById('live').textContent === 'Live'`), Until(shows("order 1")),
		Until(`document.querySelector('.total').textContent.startsWith('as of ')`))
	kept := eval[string](t, ctx, `document.getElementById('when').textContent`)
	if !strings.Contains(kept, "ago") {
		t.Errorf("the scrubber shows %q", kept)
	}
}

// TestNamesAreText has a task with markup as its name. It is shown as it is.
func TestNamesAreText(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, named(hostile))
	Look(t, ctx, chromedp.Navigate(p.url), Until(shows("order 3")),
		Until(`[...document.querySelectorAll('.line')].some(l => l.children[0].textContent === `+"`"+hostile+"`"+`)`),
		chromedp.Evaluate(`[...document.querySelectorAll('.line')].find(l => l.textContent.includes('onerror')).click()`, nil),
		Until(`document.querySelector('#details h2')?.textContent === `+"`"+hostile+"`"))
	if eval[bool](t, ctx, `window.harmed !== undefined || document.querySelector('img') !== null || document.scripts.length !== 1`) {
		t.Error("the name became markup")
	}
}

// TestPolicyForbidsOtherScripts adds markup to the page by force: the policy still keeps it from
// running, and from asking other hosts.
func TestPolicyForbidsOtherScripts(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, nil)
	Look(t, ctx, chromedp.Navigate(p.url), Until(shows("desk")), chromedp.Evaluate(`
		window.refused = 0;
		document.addEventListener('securitypolicyviolation', () => refused++);
		document.querySelector('main').insertAdjacentHTML('beforeend', '<img src="http://192.0.2.1/x" onerror="window.harmed=1"><button id="trap" onclick="window.harmed=1">x</button>');
		document.getElementById('trap').click();`, nil),
		Until(`refused >= 2`))
	if eval[bool](t, ctx, `window.harmed !== undefined`) {
		t.Error("a script that is not the page's ran")
	}
}

// TestTokenIsAskedFor opens the page of an inspector that needs a token.
func TestTokenIsAskedFor(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{Token: "secret"}, nil)
	Look(t, ctx, chromedp.Navigate(p.url), Until(`document.getElementById('ask').open`),
		chromedp.SendKeys("#token", "secret\n"), Until(shows("desk")))
}

// TestPageAsksWhereEventsDoNotCome has something between page and program that lets no event
// stream through. The page asks once in a second instead.
func TestPageAsksWhereEventsDoNotCome(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, nil)
	h := inspect.Handler(inspect.Options{AllowActions: true}) // the server does not, so that the page stays
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			http.Error(w, "no streams here", http.StatusBadGateway)
			return
		}
		h.ServeHTTP(w, r)
	}))
	defer between.Close()
	Look(t, ctx, chromedp.Navigate(between.URL+"/debug/spindle/"), Until(`document.getElementById('link').textContent === 'live, polled'`), Until(shows("order 1")))
	release := p.block(t)
	Look(t, ctx, Until(`document.querySelector('#details .stack')?.textContent.includes('blockHere')`))
	release()
	Look(t, ctx, Until(`!document.querySelector('.loop.blocked')`), chromedp.Navigate("about:blank"))
}

// TestKeys walks through the page without a mouse.
func TestKeys(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, nil)
	title := func(name string) chromedp.Action {
		return Until(`document.querySelector('#details h2')?.textContent === '` + name + `'`)
	}
	Look(t, ctx, chromedp.Navigate(p.url), Until(shows("order 3")), chromedp.Focus(".body"),
		chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.ArrowDown), title("desk"),
		chromedp.KeyEvent(kb.ArrowRight), title("order 1"), chromedp.KeyEvent(kb.ArrowLeft), title("desk"),
		chromedp.KeyEvent("3"), Until(`document.getElementById('tab-sockets').getAttribute('aria-selected') === 'true'`),
		chromedp.Focus("#tab-sockets"), chromedp.KeyEvent(kb.ArrowLeft), Until(`document.activeElement.id === 'tab-waits'`))
	ring := eval[string](t, ctx, `getComputedStyle(document.activeElement).outlineStyle`)
	if ring != "solid" {
		t.Errorf("the focus is shown by %q", ring)
	}
}

// cutColumns is an expression for the columns that are outside of their table.
const cutColumns = `[...document.querySelectorAll('.head span')]
	.filter(e => e.offsetParent && e.getBoundingClientRect().right > e.closest('.table').getBoundingClientRect().right).map(e => e.textContent)`

// TestPageFits checks widths and themes: nothing is wider than the window, and the colours
// differ.
func TestPageFits(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, deadlock)
	papers := map[string]string{}
	for _, width := range []int64{390, 761, 861, 1280} { // 860 is where the columns no longer fit beside the details
		for _, scheme := range []string{"light", "dark"} {
			Look(t, ctx, Window(width, 800, scheme), chromedp.Navigate(p.url), Until(shows("order 1")))
			for _, view := range eval[[]string](t, ctx, `Object.keys(views)`) {
				Look(t, ctx, chromedp.Evaluate(`show('`+view+`')`, nil), Until(`views[current].answer`))
				shot(t, ctx, fmt.Sprintf("%s-%d-%s", view, width, scheme))
				if cut := eval[[]string](t, ctx, cutColumns); len(cut) > 0 {
					t.Errorf("%s in a window of %d pixels does not show its columns %v", view, width, cut)
				}
				if wide := eval[[]string](t, ctx, Wide); len(wide) > 0 {
					t.Errorf("%s is wider than a window of %d pixels: %v", view, width, wide)
				}
			}
			if cut := eval[bool](t, ctx, `(e => e.scrollWidth > e.clientWidth)(document.getElementById('process'))`); cut {
				t.Errorf("a window of %d pixels does not show what the process is", width)
			}
			papers[scheme] = eval[string](t, ctx, `getComputedStyle(document.body).backgroundColor`)
		}
	}
	if papers["light"] == papers["dark"] {
		t.Errorf("both themes have the background %s", papers["light"])
	}
}
