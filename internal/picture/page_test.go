package picture_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/spindleloop/spindle/internal/browsertest"
	"github.com/spindleloop/spindle/internal/picture"
	"github.com/spindleloop/spindle/internal/simkernel"
)

const ms = time.Millisecond

func data(at int, from, to, text string) simkernel.Event {
	return simkernel.Event{Kind: "data", At: time.Duration(at) * ms, Sent: time.Duration(at-1) * ms, From: from, To: to, Conn: 1, Size: len(text), Data: text}
}

func texts(trace []simkernel.Event) (all []string) {
	for _, e := range picture.Decode(trace) {
		all = append(all, e.Text)
	}
	return all
}

func TestProtocolsAreDecoded(t *testing.T) {
	masked := []byte{0x81, 0x82, 1, 2, 3, 4, 'h' ^ 1, 'i' ^ 2}
	trace := []simkernel.Event{
		data(1, "a", "b", "POST /buy HTTP/1.1\r\nHost: b\r\n\r\n{\"n\": 1}"),
		data(2, "b", "a", "HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n"),
		data(3, "a", "b", "GET /chat HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"),
		data(4, "b", "a", "HTTP/1.1 101 Switching Protocols\r\n\r\n"),
		data(5, "a", "b", string(masked)),
		data(6, "b", "a", "\x89\x00\x81\x05hello\x88\x02\x03\xe8"),
		data(7, "a", "b", "\x81\x7e\x01\x00"+strings.Repeat("x", 100)), // 256 bytes, in two messages
		data(8, "a", "b", strings.Repeat("x", 156)),
		data(9, "a", "b", "\x8a\x00"),
	}
	want := []string{
		`POST /buy {"n": 1}`, "409 Conflict", "GET /chat", "101 Switching Protocols", "ws text hi", "ws ping, ws text hello, ws close 1000",
		"ws text " + strings.Repeat("x", 100), "156 more bytes", "ws pong",
	}
	if got := texts(trace); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for data, want := range map[string]string{
		"*2\r\n$3\r\nGET\r\n$1\r\na\r\n":                                           "GET a",
		"\x16\x03\x01\x00\x05hello":                                                "TLS handshake",
		"\x17\x03\x03\x00\x05hello":                                                "TLS, 10 bytes",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00":     "HTTP/2 preface, SETTINGS",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x01\x01\x05\x00\x00\x00\x01\x82": "HTTP/2 preface, HEADERS #1",
		"hello\n":          "",
		"*not redis\n":     "",
		"\x00\x01\x02\x03": "",
	} {
		e := simkernel.Event{Kind: "data", Conn: 2, Data: data, Size: len(data)}
		if got := texts([]simkernel.Event{e})[0]; got != want {
			t.Errorf("%q: got %q, want %q", data, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x81\x7e\x01\x00abc"), []byte("\x88\x02\x03\xe8"))
	f.Add([]byte("0"), []byte("0\x7f\xff0000000")) // a frame of more bytes than there are numbers
	f.Add([]byte("\x00\x00\x01\x01\x05\x00\x00\x00\x01\x82"), []byte("*2\r\n$3\r\nGET"))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		for _, first := range []string{"HTTP/1.1 101 x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""} {
			trace := []simkernel.Event{data(1, "a", "b", first), data(2, "a", "b", string(one)), data(3, "a", "b", string(two))}
			trace[1].Size *= 2 // not all bytes were kept
			picture.Decode(trace)
		}
	})
}

// heartbeats are n pings and answers.
func heartbeats(from, n int) (trace []simkernel.Event) {
	for i := range n {
		trace = append(trace, data(from+10*i, "a", "b", fmt.Sprint("ping ", i)), data(from+10*i+2, "b", "a", "pong"))
	}
	return trace
}

func TestHeartbeatsAreFolded(t *testing.T) {
	trace := append(heartbeats(1, 20), simkernel.Event{Kind: "crash", At: 300 * ms, Sent: 300 * ms, From: "b", To: "b"})
	trace = append(trace, heartbeats(400, 3)...)
	folded, index := picture.Fold(trace)
	if len(folded) != 5+1+6 || len(index) != len(folded) {
		t.Fatalf("%d events", len(folded))
	}
	if got := folded[2].Note; got != "the last 2 again, 18 times until 183ms" {
		t.Error(got)
	}
	if index[2] != -1 || index[3] != 38 || folded[5].Kind != "crash" {
		t.Error(index)
	}
}

func TestCompare(t *testing.T) {
	passes := []simkernel.Event{data(1, "a", "b", "pay"), data(2, "b", "a", "paid"), data(3, "a", "b", "bye")}
	fails := []simkernel.Event{
		data(1, "a", "b", "pay"),
		{Kind: "dropped", At: 2 * ms, Sent: 2 * ms, From: "b", To: "a", Data: "paid", Size: 4, Note: "partition"},
		data(9, "a", "b", "pay"), data(12, "b", "a", "paid"), data(13, "a", "b", "bye"),
	}
	d := picture.Compare(fails, passes)
	var got []string
	for _, change := range d.Lines {
		got = append(got, fmt.Sprint(change.In, " ", change.Event, " ", change.Text))
	}
	want := []string{"both 1 a → b  pay", "fails 2 b cannot reach a  paid  (partition)", "fails 3 a → b  pay"}
	if d.Same != 1 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%d the same, %q", d.Same, got)
	}
	runs := []picture.Run{{Name: "far", Trace: fails[3:]}, {Name: "near", Trace: passes}}
	if n := picture.Nearest(fails, runs); n != 1 {
		t.Errorf("the nearest run is %d", n)
	}
	if n := picture.Nearest(fails, nil); n != -1 {
		t.Errorf("the nearest run of none is %d", n)
	}
}

// TestCompareOrders: a race has the same messages as a run that passes, in another order.
func TestCompareOrders(t *testing.T) {
	passes := []simkernel.Event{data(1, "a", "db", "get"), data(2, "a", "db", "set 1"), data(3, "b", "db", "get"), data(4, "b", "db", "set 2")}
	fails := []simkernel.Event{passes[0], passes[2], passes[1], passes[3]}
	d := picture.Compare(fails, passes)
	var got []string
	for _, change := range d.Lines {
		got = append(got, fmt.Sprint(change.In, " ", change.Event, " ", change.Text))
	}
	want := []string{"both 1 a → db  get", "moved 2 b → db  get  (later in the other run)"}
	if d.Same != 1 || fmt.Sprint(got) != fmt.Sprint(want) || d.Summary != "They have the same messages, in another order." {
		t.Errorf("%d the same, %q, %s", d.Same, got, d.Summary)
	}
	runs := []picture.Run{{Name: "less", Trace: passes[:3]}, {Name: "other order", Trace: passes}}
	if n := picture.Nearest(fails, runs); n != 1 {
		t.Errorf("the nearest run is %d", n)
	}
}

// TestCompareFolds: what only one run has is shown, however often the rest repeats.
func TestCompareFolds(t *testing.T) {
	lost := func(at int) simkernel.Event {
		return simkernel.Event{Kind: "dropped", At: time.Duration(at) * ms, From: "n1", To: "n2", Data: "beat", Size: 4, Note: "partition"}
	}
	fails := []simkernel.Event{data(1, "n1", "n2", "beat")}
	for i := range 50 {
		fails = append(fails, lost(10+i))
	}
	fails = append(fails, simkernel.Event{Kind: "note", At: 99 * ms, From: "n2", To: "n2", Note: "n2 leads"})
	d := picture.Compare(fails, heartbeats(1, 1))
	var got []string
	for _, change := range d.Lines {
		got = append(got, change.In+" "+change.Text)
	}
	text := strings.Join(got, "\n")
	if !strings.Contains(text, "fails the same again, 49 times\nfails n2  n2 leads") || len(got) > 8 {
		t.Error(text)
	}
	if story := fmt.Sprint(picture.Story(fails)); !strings.Contains(story, "the same again, 48 times until") || len(picture.Story(fails)) > 6 {
		t.Error(story)
	}
}

// TestHeartbeatsOfTwoHostsAreTold: names of hosts that differ in a number are not the same.
func TestHeartbeatsOfTwoHostsAreTold(t *testing.T) {
	var trace []simkernel.Event
	for i := range 20 {
		trace = append(trace, data(10*i, "n1", "n2", fmt.Sprint("beat ", i)), data(10*i+1, "n2", "n1", fmt.Sprint("beat ", i)))
	}
	if folded, _ := picture.Fold(trace); len(folded) != 5 || folded[2].Note != "the last 2 again, 18 times until 181ms" {
		t.Errorf("%d events, %s", len(folded), folded[min(2, len(folded)-1)].Note)
	}
}

// TestLongNotesAreInThePicture: a note beside the last lane is not cut off.
func TestLongNotesAreInThePicture(t *testing.T) {
	note := strings.Repeat("long ", 20)
	var b strings.Builder
	err := picture.Draw(&b, picture.Picture{Hosts: []string{"a", "b"}, Numbers: []int{1}, Trace: []simkernel.Event{{Kind: "note", From: "b", To: "b", Note: note}}})
	if err != nil {
		t.Fatal(err)
	}
	var width, x, plate float64
	fmt.Sscanf(b.String()[strings.Index(b.String(), "viewBox"):], `viewBox="0 0 %f`, &width)
	at := strings.Index(b.String(), `class="plate" x=`)
	fmt.Sscanf(b.String()[at:], `class="plate" x="%f"`, &x)
	wide := strings.Index(b.String()[at:], `width=`)
	fmt.Sscanf(b.String()[at+wide:], `width="%f"`, &plate)
	if width == 0 || plate == 0 || x+plate > width {
		t.Errorf("a label from %v of width %v in a picture of width %v", x, plate, width)
	}
	if !strings.Contains(b.String(), "<title>b  "+note+"</title>") {
		t.Error("the whole note is not there")
	}
}

func page() picture.Page {
	connected := []simkernel.Event{
		{Kind: "connect", From: "client", To: "shop", Port: 80},
		{Kind: "connected", At: 2 * ms, Sent: ms, From: "client", To: "shop", Port: 80, Conn: 1},
	}
	passes := append(connected[:2:2], data(3, "client", "shop", "POST /pay HTTP/1.1\r\n\r\norder 1"), data(5, "shop", "client", "HTTP/1.1 200 OK\r\n\r\npaid"))
	trace := append(connected[:2:2], data(3, "client", "shop", "POST /pay HTTP/1.1\r\n\r\norder 1"),
		simkernel.Event{Kind: "partition", At: 4 * ms, Sent: 4 * ms, From: "shop", To: "client"},
		simkernel.Event{Kind: "dropped", At: 5 * ms, Sent: 5 * ms, From: "shop", To: "client", Data: "HTTP/1.1 200 OK\r\n\r\npaid", Size: 23, Note: "partition"},
		simkernel.Event{Kind: "heal", At: 900 * ms, Sent: 900 * ms, From: "shop", To: "client"},
		data(1000, "client", "shop", "POST /pay HTTP/1.1\r\n\r\norder 1"),
		simkernel.Event{Kind: "crash", At: 1001 * ms, Sent: 1001 * ms, From: "shop", To: "shop"},
		simkernel.Event{Kind: "boot", At: 1101 * ms, Sent: 1101 * ms, From: "shop", To: "shop"})
	for _, e := range heartbeats(1200, 10) {
		e.From, e.To = map[string]string{"a": "client", "b": "shop"}[e.From], map[string]string{"a": "client", "b": "shop"}[e.To]
		trace = append(trace, e)
	}
	senders := make([]string, len(trace))
	senders[2] = "pay-order"
	return picture.Page{
		Title: "TestShop, seed 7", Hosts: []string{"client", "shop"}, Trace: trace, Ending: "order 1 was paid twice </script><b>", Repeat: "go test -run TestShop",
		Faults: []string{"0s  shop cannot reach client, for 900ms"}, Senders: senders, Tasks: []picture.Tasks{{Host: "client", Text: "pay-order: Sleep"}},
		Passing: []picture.Run{{Name: "seed 8", Trace: passes}},
	}
}

func TestPage(t *testing.T) {
	var b strings.Builder
	if err := page().Write(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if n := strings.Count(text, "</script>"); n != 2 {
		t.Errorf("%d scripts end, want 2", n)
	}
	found := regexp.MustCompile(`(?s)id="data">(.*?)</script>`).FindStringSubmatch(text)
	var shown struct {
		Nearest string
		Story   []picture.Sentence
		Rows    []struct{ Host, Task, Text string }
	}
	if err := json.Unmarshal([]byte(found[1]), &shown); err != nil {
		t.Fatal(err)
	}
	if shown.Nearest != "seed 8" || shown.Rows[2].Task != "pay-order" || shown.Rows[2].Host != "client" {
		t.Errorf("%+v", shown)
	}
	story := ""
	for _, s := range shown.Story {
		story += s.Text + "\n"
	}
	for _, want := range []string{
		"At 2ms client connects to port 80 of shop.\n",
		"At 3ms shop gets “POST /pay order 1” from client.\n",
		"At 5ms “200 OK paid” from shop does not reach client (partition).\n",
		"At 1s shop gets “POST /pay order 1” from client, again.\n",
		"At 1.001s shop crashes.\n",
	} {
		if !strings.Contains(story, want) {
			t.Errorf("the story has no %q:\n%s", want, story)
		}
	}
}

// TestPageInABrowser looks at the page: the difference is first, and search, zoom and folding work.
func TestPageInABrowser(t *testing.T) {
	ctx := browsertest.Start(t)
	file := filepath.Join(t.TempDir(), "page.html")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := page().Write(out); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	var heading, difference, ending string
	var wide []string
	var shot []byte
	browsertest.Look(t, ctx,
		browsertest.Window(1200, 1400, "light"),
		chromedp.Navigate("file://"+file),
		browsertest.Until(`document.querySelectorAll('#rows tr').length === 29`),
		chromedp.Evaluate(`[...document.querySelectorAll('h2')].find(e => e.checkVisibility()).textContent`, &heading),
		chromedp.Evaluate(`document.querySelector('#difference .fails').textContent`, &difference),
		chromedp.Evaluate(`document.querySelector('#ending').textContent`, &ending),
		browsertest.Until(`document.querySelector('#folded').textContent.includes('the last 2 again, 8 times')`),
		browsertest.Until(`document.querySelector('#full').offsetHeight === 0 && document.querySelector('#folded svg').clientWidth > 400`),
		chromedp.FullScreenshot(&shot, 100),
		chromedp.SendKeys("#search", "pay-order", chromedp.ByQuery),
		browsertest.Until(`document.querySelector('#found').textContent === '1 found' && document.querySelectorAll('#folded .event.hit').length > 0`),
		chromedp.SendKeys("#search", "\r", chromedp.ByQuery),
		browsertest.Until(`document.querySelector('tr.chosen').dataset.event === '3'`),
		chromedp.Evaluate(`before = document.querySelector('#folded svg').clientWidth`, nil),
		chromedp.Click("#larger", chromedp.ByQuery),
		browsertest.Until(`document.querySelector('#folded svg').clientWidth > 1.2 * before`),
		chromedp.Click("#fold", chromedp.ByQuery),
		browsertest.Until(`document.querySelector('#folded').offsetHeight === 0 && document.querySelector('#full svg').clientHeight > 800`),
		browsertest.Window(420, 900, "dark"),
		chromedp.Evaluate(`[...document.querySelectorAll('body > :not(#picture)')].filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName)`, &wide),
	)
	if heading != "The difference from the nearest run that passes: seed 8" {
		t.Errorf("the first heading is %q", heading)
	}
	if !strings.Contains(difference, "shop is partitioned from client") || ending != "order 1 was paid twice </script><b>" {
		t.Errorf("difference %q, ending %q", difference, ending)
	}
	if len(wide) > 0 {
		t.Errorf("wider than a narrow window: %v", wide)
	}
	if dir := os.Getenv("SPINDLE_SCREENSHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "failure.png"), shot, 0o644); err != nil {
			t.Error(err)
		}
	}
}
