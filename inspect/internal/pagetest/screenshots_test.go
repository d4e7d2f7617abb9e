package pagetest_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	. "github.com/spindleloop/spindle/internal/browsertest"
)

var screenshots = flag.String("screenshots", "", "the `folder` in which to save the pictures of the guide")

// TestScreenshots makes the pictures of the guide:
//
//	go test ./inspect/internal/pagetest -run Screenshots -screenshots "$PWD/docs/guide"
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("it makes the pictures of the guide, with -screenshots")
	}
	ctx := Start(t)
	p := start(t, inspect.Options{}, func(ctx context.Context, n *spindle.Nursery) {
		deadlock(ctx, n)
		bustle(n)
	})
	settled := Until(`frames.size > 16 && [...document.querySelectorAll('.line')].length > 8`)
	Look(t, ctx, Window(1280, 720, "light"), chromedp.Navigate(p.url), settled)
	release := p.block(t)
	Look(t, ctx, Until(`document.querySelector('#details .stack')?.textContent.includes('blockHere')`),
		Until(`parseFloat(document.querySelector('.state').textContent.replace(/[^0-9.]/g, '')) > 1 && document.querySelector('.state').textContent.endsWith(' s')`))
	save(t, ctx, "inspect-blocked")
	release()
	Look(t, ctx, Until(`!document.querySelector('.loop.blocked')`), Window(1280, 720, "dark"), chromedp.KeyEvent("2"), Until(`document.querySelectorAll('.node.cycle').length === 4`),
		chromedp.Evaluate(`document.querySelector('.node.cycle:not(.object)').dispatchEvent(new MouseEvent('click', {bubbles: true}))`, nil),
		Until(`document.querySelector('#details .stack')`))
	save(t, ctx, "inspect-waits")
}

// bustle starts tasks that keep the loop a little busy.
func bustle(n *spindle.Nursery) {
	for i := range 12 {
		n.GoWith(spindle.TaskOptions{Name: fmt.Sprintf("price feed %d", i+1)}, func(ctx context.Context) error {
			for {
				sum := 0
				for j := range (i + 1) * 400_000 {
					sum += j
				}
				if sum < 0 {
					return nil
				}
				if err := spindle.Sleep(ctx, time.Duration(5+3*i)*time.Millisecond); err != nil {
					return err
				}
			}
		})
	}
}

// save saves what the window shows, with at most 256 colours, which takes a third of the
// bytes.
func save(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	var shot []byte
	Look(t, ctx, chromedp.CaptureScreenshot(&shot))
	full, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&b, reduced(full)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s.png: %d bytes", name, b.Len())
}

// reduced returns a picture with the 256 most frequent colours of another one.
func reduced(full image.Image) image.Image {
	counts := map[color.RGBA]int{}
	at := full.Bounds()
	for y := at.Min.Y; y < at.Max.Y; y++ {
		for x := at.Min.X; x < at.Max.X; x++ {
			counts[color.RGBAModel.Convert(full.At(x, y)).(color.RGBA)]++
		}
	}
	var colors color.Palette
	for c := range counts {
		colors = append(colors, c)
	}
	slices.SortFunc(colors, func(a, b color.Color) int {
		x, y := a.(color.RGBA), b.(color.RGBA)
		return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x.R, y.R), cmp.Compare(x.G, y.G), cmp.Compare(x.B, y.B))
	})
	few := image.NewPaletted(at, colors[:min(len(colors), 256)])
	draw.Draw(few, at, full, at.Min, draw.Src)
	return few
}
