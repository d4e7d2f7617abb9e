package top

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestFitIsExactlyAsWideAsItShould(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		right bool
		want  string
	}{
		{"abc", 5, false, "abc  "},
		{"abc", 5, true, "  abc"},
		{"abcdef", 5, false, "abcd…"},
		{"abcde", 5, false, "abcde"},
		{"abc", 0, false, ""},
		{"", 2, false, "  "},
		{"日本語", 6, false, "日本語"},
		{"日本語", 5, false, "日本…"},
		{"日本語", 4, false, "日… "},
	} {
		if got := fit(test.text, test.width, test.right); got != test.want {
			t.Errorf("fit(%q, %d) = %q, want %q", test.text, test.width, got, test.want)
		}
	}
}

// TestCleanDisarmsNames: a name cannot move the cursor, set the title or hide text.
func TestCleanDisarmsNames(t *testing.T) {
	got := clean("a\x1b[2Jb\x07c\rd\ne\u202ef\x9bg\xff")
	if strings.ContainsAny(got, "\x1b\x07\r\n\u202e\u009b") || !utf8.ValidString(got) {
		t.Errorf("got %q", got)
	}
	for _, letter := range "abcdefg" {
		if !strings.ContainsRune(got, letter) {
			t.Errorf("%q has lost %q", got, letter)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 1500: "2 µs", 999 * time.Microsecond: "999 µs", 1500 * time.Microsecond: "1.50 ms", 99400 * time.Microsecond: "99.4 ms",
		702 * time.Millisecond: "702 ms", 12 * time.Second: "12.0 s", 75 * time.Second: "1:15 min", 3700 * time.Second: "1:01 h", 50 * time.Hour: "2 d", -2 * time.Second: "-2.00 s",
	} {
		if got := span(int64(d)); got != want {
			t.Errorf("span(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestStackLines(t *testing.T) {
	got := stackLines("goroutine 7 [chan receive]:\ngithub.com/x/app.(*server).wait(0xc000, {0x1, 0x2})\n\t/src/app/server.go:12 +0x1d\nmain.main()\n\t/src/main.go:5 +0x2\n")
	if len(got) != 2 || !strings.HasPrefix(got[0], "app.(*server).wait ") || !strings.HasSuffix(got[0], " server.go:12") || !strings.HasSuffix(got[1], " main.go:5") {
		t.Errorf("got %q", got)
	}
}
