package sim_test

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

// greet sends a datagram to the server.
func greet(ctx context.Context) error {
	pc, err := stream.DialPacket(ctx, "udp", "server:9")
	if err != nil {
		return err
	}
	defer pc.Close()
	_, err = pc.Write([]byte("hello"))
	return err
}

// A picture of one datagram that is lost in a partition.
func ExampleTrace_Draw() {
	w := sim.NewWorld(1)
	server, client := w.Host("server"), w.Host("client")
	w.Partition(server, client)
	client.Go(greet)
	if err := w.Run(); err != nil {
		fmt.Println(err)
	}
	var picture strings.Builder
	if err := w.Trace().Draw(&picture, "a greeting", "", "client", "server"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(strings.HasPrefix(picture.String(), "<svg"), strings.Contains(picture.String(), "hello (partition)"))
	// Output: true true
}

// texts returns the texts of a picture. It fails the test if the picture is not well-formed.
func texts(t *testing.T, picture string) (all []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(picture))
	inText := false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
		case xml.CharData:
			if inText {
				all = append(all, string(token))
			}
		case xml.EndElement:
			inText = false
		}
	}
}

// TestEveryKindOfEventIsDrawn checks the texts and shapes of a trace with all kinds.
func TestEveryKindOfEventIsDrawn(t *testing.T) {
	ms := time.Millisecond
	trace := sim.Trace{
		{Kind: "connect", At: 0, Sent: 0, From: "a", To: "b", Port: 7},
		{Kind: "connected", At: 2 * ms, Sent: ms, From: "a", To: "b", Port: 7, Conn: 1},
		{Kind: "data", At: 3 * ms, Sent: 2 * ms, From: "a", To: "b", Conn: 1, Size: 3, Data: "<&>"},
		{Kind: "data", At: 3 * ms, Sent: 2 * ms, From: "a", To: "b", Conn: 1, Size: 90, Data: "and more of it, partly left out"},
		{Kind: "data", At: 4 * ms, Sent: 3 * ms, From: "b", To: "a", Conn: 1, Size: 4, Data: "\x00\x01\x02\xff"},
		{Kind: "datagram", At: 5 * ms, Sent: 5 * ms, From: "a", To: "a", Port: 9, Size: 2, Data: "me"},
		{Kind: "end", At: 6 * ms, Sent: 5 * ms, From: "a", To: "b", Conn: 1},
		{Kind: "reset", At: 7 * ms, Sent: 6 * ms, From: "b", To: "a", Conn: 1},
		{Kind: "connect", At: 8 * ms, Sent: 8 * ms, From: "a", To: "c", Port: 8},
		{Kind: "refused", At: 10 * ms, Sent: 9 * ms, From: "c", To: "a", Port: 8},
		{Kind: "partition", At: 11 * ms, Sent: 11 * ms, From: "a", To: "b"},
		{Kind: "dropped", At: 12 * ms, Sent: 12 * ms, From: "a", To: "b", Note: "reset"},
		{Kind: "dropped", At: 13 * ms, Sent: 12 * ms, From: "a", To: "c", Size: 2, Data: "hi", Note: "no socket"},
		{Kind: "heal", At: time.Hour, Sent: time.Hour, From: "a", To: "b"},
		{Kind: "crash", At: time.Hour, Sent: time.Hour, From: "b", To: "b"},
		{Kind: "boot", At: time.Hour + ms, Sent: time.Hour + ms, From: "b", To: "b"},
		{Kind: "pause", At: time.Hour + 2*ms, Sent: time.Hour + 2*ms, From: "c", To: "c"},
		{Kind: "resume", At: time.Hour + 3*ms, Sent: time.Hour + 3*ms, From: "c", To: "c"},
		{Kind: "call", At: time.Hour + 4*ms, Sent: time.Hour + 4*ms, From: "c", To: "c", Note: "accept"},
		{Kind: "clock", At: time.Hour + 5*ms, Sent: time.Hour + 5*ms, From: "c", To: "c", Note: "1s off"},
		{Kind: "note", At: time.Hour + 6*ms, Sent: time.Hour + 6*ms, From: "c", To: "c", Note: "so it is"},
		{Kind: "note", At: time.Hour + 6*ms, Sent: time.Hour + 6*ms, Note: "no host in particular"},
	}
	var b strings.Builder
	if err := trace.Draw(&b, "all & everything", "it ends\nbadly"); err != nil {
		t.Fatal(err)
	}
	said := texts(t, b.String())
	for _, want := range []string{
		"all & everything", "a", "b", "c", "connect :7 (#1)", "<&>and more of it, pa… (93 bytes)", "4 bytes", "me", "end of #1", "reset of #1",
		"connect :8", "refused", "partitioned from b", "reset", "hi (no socket)", "reconnected to b", "crashes", "boots", "pauses", "resumes",
		"has a failing call (accept)", "has a new clock (1s off)", "so it is", "no host in particular", "it ends", "1h0m0s",
	} {
		found := false
		for _, s := range said {
			found = found || s == want
		}
		if !found {
			t.Errorf("the picture does not have %q:\n%q", want, said)
		}
	}
	for shape, want := range map[string]int{`class="parted"`: 1, `class="paused"`: 1, `class="down"`: 1, `class="cross"`: 6, `url(#tip)`: 3} {
		if got := strings.Count(b.String(), shape); got != want {
			t.Errorf("%d times %s, want %d", got, shape, want)
		}
	}
}

// TestPictureOfAnEmptyTrace: the picture has only a title.
func TestPictureOfAnEmptyTrace(t *testing.T) {
	var b strings.Builder
	if err := sim.Trace(nil).Draw(&b, "nothing", ""); err != nil || len(texts(t, b.String())) != 1 {
		t.Error(err, b.String())
	}
}

// TestPicturesOfRunsWithFaults are well-formed, and every part has a position.
func TestPicturesOfRunsWithFaults(t *testing.T) {
	for seed := range uint64(10) {
		w := sim.NewWorld(seed)
		server, client := w.Host("server"), w.Host("client")
		server.Serve(func(ctx context.Context) error {
			ln, err := stream.Listen(ctx, "tcp", ":7")
			if err != nil {
				return err
			}
			return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
				io.Copy(c, c)
				return nil
			})
		})
		client.Go(func(ctx context.Context) error {
			for range 10 {
				spindle.FailAfter(ctx, time.Second, func(ctx context.Context) error {
					c, err := stream.Dial(ctx, "tcp", "server:7")
					if err != nil {
						return err
					}
					defer c.Close()
					if _, err := c.Write([]byte("hello")); err != nil {
						return err
					}
					_, err = c.Read(make([]byte, 5))
					return err
				})
			}
			return nil
		})
		w.Faults = sim.Faults{For: 5 * time.Second, Lasting: time.Second, Loss: 0.1, Dribble: 0.1,
			PartitionEvery: time.Second, CrashEvery: time.Second, PauseEvery: time.Second, ClockEvery: time.Second, Hosts: []*sim.Host{server}}
		if err := w.Run(); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := w.Trace().Draw(&b, fmt.Sprint(seed), ""); err != nil {
			t.Fatal(err)
		}
		if texts(t, b.String()); strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), `y="0.0"`) || strings.Contains(b.String(), `y1="0.0"`) {
			t.Errorf("seed %d: a part has no position", seed)
		}
	}
}
