package pagetest_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/inspect"
	. "github.com/spindleloop/spindle/internal/browsertest"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/stream"
)

// TestManyWaitsAreAList has more waits than can be drawn. Cycles are told first, and drawn;
// the rest is a list.
func TestManyWaitsAreAList(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, func(ctx context.Context, n *spindle.Nursery) {
		deadlock(ctx, n)
		var till cosync.Mutex
		for i := range 40 {
			n.GoWith(spindle.TaskOptions{Name: fmt.Sprintf("customer %d", i)}, func(ctx context.Context) error {
				if err := till.Lock(ctx); err != nil {
					return err
				}
				defer till.Unlock()
				return spindle.Sleep(ctx, time.Hour)
			})
		}
	})
	Look(t, ctx, Window(1280, 720, "light"), chromedp.Navigate(p.url), Until(shows("customer")), chromedp.Evaluate(`show('waits')`, nil),
		Until(`document.querySelector('.told li')?.textContent.startsWith('transfer A to B waits for Mutex ')`),
		Until(`document.querySelector('.told li').textContent.includes(', held by transfer B to A, which waits for Mutex ')`),
		Until(`[...document.querySelectorAll('.graph .told li')].some(l => /^Mutex \d+, held by customer 0: 39 tasks wait/.test(l.textContent))`),
		Until(`document.querySelectorAll('.node.cycle').length === 4`))
	if nodes := eval[int](t, ctx, `document.querySelectorAll('.node').length`); nodes > 20 {
		t.Errorf("%d nodes are drawn", nodes)
	}
	shot(t, ctx, "waits-many")
}

// TestCycleWithADeadlineEnds says so.
func TestCycleWithADeadlineEnds(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, func(_ context.Context, n *spindle.Nursery) {
		n.GoWith(spindle.TaskOptions{Name: "in time"}, func(ctx context.Context) error {
			_, err := spindle.MoveOnAfter(ctx, time.Hour, func(ctx context.Context) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					deadlock(ctx, n)
					return nil
				})
			})
			return err
		})
	})
	Look(t, ctx, chromedp.Navigate(p.url), Until(shows("transfer")), chromedp.Evaluate(`show('waits')`, nil),
		Until(`document.querySelector('.verdict')?.textContent.endsWith('until a deadline ends a wait.')`),
		Until(`/; ends at a deadline in (1:00 h|59:\d\d min)$/.test(document.querySelector('.told li').textContent)`))
}

// TestLocksAndSocketsSayWhatIsWrong looks at a channel without a buffer, a queue without a
// limit, and a connection with a peer that does not read.
func TestLocksAndSocketsSayWhatIsWrong(t *testing.T) {
	ctx := Start(t)
	listening := make(chan string, 1)
	p := start(t, inspect.Options{}, func(_ context.Context, n *spindle.Nursery) {
		deadlock(ctx, n)
		tx, _ := cosync.NewChannel[int](0)
		queue := cosync.NewQueue[int](math.MaxInt)
		n.GoWith(spindle.TaskOptions{Name: "sender"}, func(ctx context.Context) error { return tx.Send(ctx, 1) })
		n.GoWith(spindle.TaskOptions{Name: "getter"}, func(ctx context.Context) error { _, err := queue.Get(ctx); return err })
		n.GoWith(spindle.TaskOptions{Name: "server"}, func(ctx context.Context) error {
			ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			listening <- ln.Addr().String()
			return stream.Serve(ctx, ln, func(_ context.Context, c *stream.Conn) error {
				_, err := c.Write(make([]byte, 64<<20))
				return err
			})
		})
	})
	client, err := net.Dial("tcp", <-listening)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	row := func(pattern string) chromedp.Action {
		return Until(`[...document.querySelectorAll('.line:not([hidden])')].some(l => ` + pattern + `.test([...l.children].map(c => c.textContent).join('|')))`)
	}
	Look(t, ctx, Window(1280, 720, "dark"), chromedp.Navigate(p.url), Until(shows("sender")), chromedp.Evaluate(`show('sync')`, nil),
		row(`/^Channel \d+\|orders\|\|no buffer\|1\|/`), row(`/^Queue \d+\|orders\|\|0, no limit\|1\|/`), row(`/^Mutex \d+\|orders\|transfer A to B\|1 of 1\|/`))
	shot(t, ctx, "locks")
	Look(t, ctx, chromedp.Evaluate(`show('sockets')`, nil), row(`/\d MB, slow peer/`))
	shot(t, ctx, "sockets-paused")
	Look(t, ctx, chromedp.Evaluate(`document.querySelector('.line.alarm').click()`, nil), Until(`document.querySelector('#details').textContent.includes('a task waits until the peer reads')`))
}

// caller is a caller of package relay with one call.
type caller struct{}

func (caller) ProbeCalls(int) ([]probe.Call, int) {
	return []probe.Call{{ID: 7, Subject: "orders.pay", Age: 3 * time.Second, Left: 2 * time.Second, Task: true}}, 1
}

func TestCallsAreListed(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, nil)
	probe.AddCaller(caller{})
	defer probe.RemoveCaller(caller{})
	Look(t, ctx, chromedp.Navigate(p.url), Until(shows("order 3")), chromedp.Click("#tab-calls"), Until(shows("orders.pay")),
		chromedp.Evaluate(`document.querySelector('.line').click()`, nil), Until(`document.querySelector('#details h2')?.textContent === 'orders.pay'`))
}

// TestDeadProcessIsGrey ends the server while the page is open, and starts it again.
func TestDeadProcessIsGrey(t *testing.T) {
	ctx := Start(t)
	start(t, inspect.Options{}, nil)
	dead := make(chan struct{})
	h := inspect.Handler(inspect.Options{AllowActions: true})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-dead:
			panic(http.ErrAbortHandler)
		default:
			h.ServeHTTP(w, r)
		}
	}))
	defer front.Close()
	Look(t, ctx, Window(1280, 720, "light"), chromedp.Navigate(front.URL), Until(shows("order 3")), Until(`link.state === 'live'`))
	close(dead)
	front.CloseClientConnections()
	Look(t, ctx, Until(`document.body.classList.contains('lost') && /^no answer for \d/.test(document.querySelector('#link').textContent)`),
		Until(`document.querySelector('.loop .state').textContent.startsWith('was ')`), Until(`getComputedStyle(document.querySelector('main')).filter === 'grayscale(1)'`))
	shot(t, ctx, "dead")
	front.CloseClientConnections()
}

// TestBlockedLoopDoesNotClaimToHaveNoTasks opens the page when the loop is blocked already.
func TestBlockedLoopDoesNotClaimToHaveNoTasks(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, nil)
	release := p.block(t)
	Look(t, ctx, Window(1280, 720, "light"), chromedp.Navigate(p.url), Until(`document.querySelector('.loop.blocked')`),
		Until(`document.querySelector('.empty:not([hidden])')?.textContent.startsWith('The tasks are not known')`),
		Until(`document.querySelector('.figures dd').textContent !== '0 ms' && document.querySelectorAll('.figures dd')[1].textContent === '0'`))
	shot(t, ctx, "blocked-first")
	release()
	Look(t, ctx, Until(shows("order 3")))
}

// TestRecordingHasHostsAndMessages looks at a simulated world of two hosts.
func TestRecordingHasHostsAndMessages(t *testing.T) {
	ctx := Start(t)
	Look(t, ctx, Window(1280, 720, "light"), chromedp.Navigate(recorded(t)), Until(shows("transfer A to B")),
		// The rows come before the loops that they name.
		chromedp.Evaluate(`{ const get = fetch; window.fetch = async (...a) => { const r = await get(...a); if (String(a[0]).includes('loops')) await new Promise(f => setTimeout(f, 300)); return r; }; }`, nil),
		scrubTo("10"),
		Until(`[...document.querySelectorAll('.line:not([hidden])')].map(l => l.children[0].textContent + ' ' + l.children[1].textContent).filter(t => t.startsWith('main')).join() === 'main ledger,main replica'`),
		Until(`getComputedStyle(document.querySelector('.line .loop-of')).display !== 'none'`),
		chromedp.Evaluate(`show('messages')`, nil), Until(`document.querySelector('.empty').textContent.startsWith('Nothing was sent')`),
		scrubTo("30"), Until(shows("crash")))
	shot(t, ctx, "messages")
}
