package web_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/spindleloop/spindle/web"
)

// BenchmarkTransport measures a request on a kept connection, server and all, beside
// net/http's client in a goroutine.
func BenchmarkTransport(b *testing.B) {
	s, _ := counted(b, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	b.Run("web", func(b *testing.B) {
		b.ReportAllocs()
		tasks(b, func(ctx context.Context) {
			c := &http.Client{Transport: &web.Transport{}}
			for range b.N {
				if _, _, err := do(ctx, c, "GET", s.URL, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	b.Run("net", func(b *testing.B) {
		b.ReportAllocs()
		tr := &http.Transport{}
		defer tr.CloseIdleConnections()
		c := &http.Client{Transport: tr}
		for range b.N {
			if _, _, err := do(context.Background(), c, "GET", s.URL, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
