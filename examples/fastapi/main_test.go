package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/spindleloop/spindle/examples/internal/servertest"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/pyapp"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestPythonBesideGo(t *testing.T) {
	python := os.Getenv("SPINDLE_PYTHON")
	if python == "" {
		t.Skip("SPINDLE_PYTHON is not set: it names an interpreter with the packages spindle-loop and fastapi")
	}
	app := &pyapp.App{Target: "main:app", Workers: 2, Python: python}
	s := servertest.Start(t, func(ctx context.Context, out io.Writer) error { return run(ctx, "127.0.0.1:0", app, out) })
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: servertest.Timeout}
	url := "http://" + s.Addr(t)
	for path, want := range map[string]string{
		"/api/items/3":                  `{"number":3,"url":"` + url + `/api/items/3","client":"127.0.0.1"}`,
		"/words?text=so+it+goes+so+far": `{"far":1,"goes":1,"it":1,"so":2}` + "\n",
	} {
		res, err := client.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}
