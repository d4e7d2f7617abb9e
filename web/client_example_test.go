package web_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
)

// Two tasks ask at once, and the loop waits for neither.
func ExampleTransport() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "you asked for %s", r.URL.Path)
	}))
	defer server.Close()
	client := &http.Client{Transport: &web.Transport{}}
	get := func(path string) func(ctx context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			req, err := http.NewRequestWithContext(ctx, "GET", server.URL+path, nil)
			if err != nil {
				return "", err
			}
			res, err := client.Do(req)
			if err != nil {
				return "", err
			}
			defer res.Body.Close()
			text, err := io.ReadAll(res.Body)
			return string(text), err
		}
	}
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		answers, err := spindle.Gather(ctx, get("/one"), get("/two"))
		for _, answer := range answers {
			fmt.Println(answer)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// you asked for /one
	// you asked for /two
}
