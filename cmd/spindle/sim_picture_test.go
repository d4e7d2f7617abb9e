package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"testing"
)

// svg holds the parts of a picture that the test checks.
type svg struct {
	Height float64 `xml:"height,attr"`
	Rects  []struct {
		Class  string  `xml:"class,attr"`
		X      float64 `xml:"x,attr"`
		Y      float64 `xml:"y,attr"`
		Width  float64 `xml:"width,attr"`
		Height float64 `xml:"height,attr"`
	} `xml:"rect"`
}

// TestPicturesCanBeRead checks that pictures are not much taller than two screens, and that
// labels do not overlap.
func TestPicturesCanBeRead(t *testing.T) {
	for _, program := range []string{"counter", "lock-unfenced"} {
		file := filepath.Join(t.TempDir(), "picture.svg")
		if got := run(t.Context(), "sim", "--svg", file, program); got.code != 1 {
			t.Fatalf("%+v", got)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var picture svg
		if err := xml.Unmarshal(text, &picture); err != nil {
			t.Fatal(err)
		}
		if picture.Height > 2000 {
			t.Errorf("%s: %v pixels tall", program, picture.Height)
		}
		labels := 0
		for i, a := range picture.Rects {
			if a.Class != "plate" {
				continue
			}
			labels++
			for _, b := range picture.Rects[:i] {
				if b.Class == "plate" && a.X < b.X+b.Width && b.X < a.X+a.Width && a.Y < b.Y+b.Height && b.Y < a.Y+a.Height {
					t.Errorf("%s: the labels at %v,%v and %v,%v overlap", program, a.X, a.Y, b.X, b.Y)
				}
			}
		}
		if labels < 5 {
			t.Errorf("%s: %d labels", program, labels)
		}
	}
}
