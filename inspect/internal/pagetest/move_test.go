package pagetest_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/spindleloop/spindle/inspect"
	. "github.com/spindleloop/spindle/internal/browsertest"
)

// TestPageMovesToTheInspector opens the page of a mounted handler in a program that has a
// server of its own for it.
func TestPageMovesToTheInspector(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{}, nil)
	mounted := httptest.NewServer(inspect.Handler(inspect.Options{}))
	defer mounted.Close()
	for _, at := range []string{mounted.URL, strings.Replace(mounted.URL, "127.0.0.1", "localhost", 1)} {
		Look(t, ctx, chromedp.Navigate(at), eventually(`location.port === new URL('`+p.url+`').port && `+shows("order 3")))
	}
}

// eventually is Until for a page that goes elsewhere meanwhile, during which nothing can be
// evaluated.
func eventually(expression string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		for Until(expression).Do(ctx) != nil {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("waiting until %s: %w", expression, err)
			}
		}
		return nil
	})
}

// TestPageStaysIfTheInspectorCannotBeReached answers with the address of a server that is
// not there, as through a forwarded port.
func TestPageStaysIfTheInspectorCannotBeReached(t *testing.T) {
	ctx := Start(t)
	p := start(t, inspect.Options{AllowActions: true}, nil)
	Look(t, ctx, chromedp.Navigate(p.url), Until(shows("order 3")),
		chromedp.Evaluate(`moveOn('127.0.0.1:1').then(() => { window.tried = true; }), undefined`, nil), Until(`window.tried`), Until(shows("order 3")))
	if at := eval[string](t, ctx, `location.href`); !strings.HasPrefix(at, p.url) {
		t.Errorf("the page is at %s", at)
	}
}
