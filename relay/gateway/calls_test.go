package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

const callsProtocol = "relay.calls.v1"

// dialCalls connects with callsProtocol, and reads the first frame.
func dialCalls(ctx context.Context, url string) (*ws.Conn, error) {
	c, err := ws.Dial(ctx, "ws"+strings.TrimPrefix(url, "http"), ws.Options{Subprotocols: []string{callsProtocol}})
	if err != nil {
		return nil, err
	}
	if got, err := frameFrom(ctx, c); err != nil || !strings.HasPrefix(got, `{"type":"hello"`) {
		return nil, fmt.Errorf("the first frame is %s: %w", got, err)
	}
	return c, nil
}

func send(ctx context.Context, c *ws.Conn, frames ...string) error {
	for _, frame := range frames {
		if err := c.Write(ctx, ws.Text, []byte(frame)); err != nil {
			return err
		}
	}
	return nil
}

func frameFrom(ctx context.Context, c *ws.Conn) (frame string, err error) {
	err = spindle.FailAfter(ctx, time.Minute, func(ctx context.Context) error {
		_, message, err := c.Read(ctx)
		frame = string(message)
		return err
	})
	return frame, err
}

// expect reads frames, and compares them.
func expect(ctx context.Context, t *testing.T, c *ws.Conn, frames ...string) {
	t.Helper()
	for _, want := range frames {
		if got, err := frameFrom(ctx, c); err != nil || got != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
			return
		}
	}
}

// expectClose waits for a Close of the server.
func expectClose(ctx context.Context, t *testing.T, c *ws.Conn, code ws.Code, reason string) {
	t.Helper()
	got, err := frameFrom(ctx, c)
	var closed *ws.CloseError
	if !errors.As(err, &closed) || closed.Code != code || closed.Reason != reason {
		t.Errorf("got %s, %v; want a Close with %d %q", got, err, code, reason)
	}
}

// until waits for a condition.
func until(ctx context.Context, condition func() bool) error {
	return spindle.FailAfter(ctx, time.Minute, func(ctx context.Context) error {
		for !condition() {
			if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	})
}

// callsPlane runs fn with a server. Its handlers run in tasks, and then on goroutines.
func callsPlane(t *testing.T, route gateway.Route, o relay.CallerOptions, handler relay.Handler, fn func(ctx context.Context, t *testing.T, url string, h *gateway.Handler, w *relay.Worker) error) {
	for name, wrap := range map[string]func(http.Handler) http.Handler{
		"in tasks":      web.Inline,
		"on goroutines": func(h http.Handler) http.Handler { return h },
	} {
		t.Run(name, func(t *testing.T) {
			bus := relay.NewLocal(relay.LocalOptions{})
			w, _ := serve(t, bus, "work", relay.ServeOptions{Concurrency: 32}, handler)
			var h *gateway.Handler
			var running atomic.Int64 // handlers: on goroutines they outlive their connections for a moment
			webPlane(t, bus, o, func(c *relay.Caller) http.Handler {
				h = gateway.New(c, route)
				return wrap(counted{h, &running})
			}, func(ctx context.Context, url string) error {
				err := fn(ctx, t, url, h, w)
				return errors.Join(err, until(ctx, func() bool { return running.Load() == 0 }))
			})
		})
	}
}

// counted counts its calls that run.
type counted struct {
	http.Handler
	running *atomic.Int64
}

func (c counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.running.Add(1)
	defer c.running.Add(-1)
	c.Handler.ServeHTTP(w, r)
}

// TestCalls: calls on one WebSocket run at the same time, and end one by one, whatever the others do.
func TestCalls(t *testing.T) {
	release := make(chan struct{}, 2)
	callsPlane(t, gateway.Route{Subject: "work", Timeout: time.Minute, MaxBody: 1000}, relay.CallerOptions{}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		if string(r.Body) == "bytes" {
			return []byte{0xff, 0}, nil
		}
		return work(release)(ctx, r)
	}, func(ctx context.Context, t *testing.T, url string, h *gateway.Handler, w *relay.Worker) error {
		c, err := dialCalls(ctx, url)
		if err != nil {
			return err
		}
		defer c.CloseNow()
		if c.Subprotocol() != callsProtocol {
			t.Errorf("the subprotocol is %q", c.Subprotocol())
		}
		if err := send(ctx, c, `{"type":"call","id":1,"body":"block"}`, `{"type":"call","id":2,"body":"<two> é"}`); err != nil {
			return err
		}
		expect(ctx, t, c, `{"type":"item","id":2,"body":"<two> é"}`, `{"type":"end","id":2}`) // the later call is first
		if err := send(ctx, c, `{"type":"call","id":5,"body":"fail"}`); err != nil {
			return err
		}
		expect(ctx, t, c, `{"type":"error","id":5,"status":500,"reason":"failed"}`)
		if err := send(ctx, c, `{"type":"call","id":6,"body":"items","credit":10}`); err != nil {
			return err
		}
		expect(ctx, t, c, `{"type":"item","id":6,"body":"one"}`, `{"type":"item","id":6,"body":"two\nlines"}`,
			`{"type":"item","id":6,"body":"three"}`, `{"type":"end","id":6}`)
		if err := send(ctx, c, `{"type":"call","id":7,"data":"/wA="}`); err != nil { // echoed as bytes that are not UTF-8
			return err
		}
		expect(ctx, t, c, `{"type":"item","id":7,"data":"/wA="}`, `{"type":"end","id":7}`)
		if err := send(ctx, c, `{"type":"call","id":8}`); err != nil { // an empty reply is no item
			return err
		}
		expect(ctx, t, c, `{"type":"end","id":8}`)
		if err := send(ctx, c, `{"type":"call","id":9,"body":"`+strings.Repeat("x", 1001)+`"}`); err != nil {
			return err
		}
		expect(ctx, t, c, `{"type":"error","id":9,"status":413,"reason":"too large"}`)

		// Frames for calls that have ended may have crossed their ends.
		if err := send(ctx, c, `{"type":"cancel","id":2}`, `{"type":"credit","id":3,"n":1}`, `{"type":"cancel","id":1}`); err != nil {
			return err
		}
		expect(ctx, t, c, `{"type":"error","id":1,"status":499,"reason":"canceled"}`)
		release <- struct{}{}
		if s := h.Stats(); s != (gateway.Stats{OK: 4, Failed: 1, Refused: 1, ClientGone: 1}) {
			t.Errorf("%+v", s)
		}
		return nil
	})
}

// TestCallsAboveTheLimit: they are refused, the others go on, and a call that ends makes room.
func TestCallsAboveTheLimit(t *testing.T) {
	release := make(chan struct{})
	callsPlane(t, gateway.Route{Subject: "work", Timeout: time.Minute, MaxCalls: 2}, relay.CallerOptions{}, work(release), func(ctx context.Context, t *testing.T, url string, h *gateway.Handler, w *relay.Worker) error {
		c, err := dialCalls(ctx, url)
		if err != nil {
			return err
		}
		defer c.CloseNow()
		if err := send(ctx, c, `{"type":"call","id":1,"body":"block"}`, `{"type":"call","id":2,"body":"wait"}`, `{"type":"call","id":3,"body":"echo"}`); err != nil {
			return err
		}
		expect(ctx, t, c, `{"type":"error","id":3,"status":429,"reason":"too many calls"}`)
		for id := 4; id < 40; id += 2 { // as soon as a call has ended, there may be another one
			if err := send(ctx, c, fmt.Sprintf(`{"type":"cancel","id":%d}`, id-2)); err != nil {
				return err
			}
			expect(ctx, t, c, fmt.Sprintf(`{"type":"error","id":%d,"status":499,"reason":"canceled"}`, id-2))
			if err := send(ctx, c, fmt.Sprintf(`{"type":"call","id":%d,"body":"wait"}`, id)); err != nil {
				return err
			}
		}
		release <- struct{}{}
		expect(ctx, t, c, `{"type":"item","id":1,"body":"block"}`, `{"type":"end","id":1}`)
		return nil
	})
}

// TestCallsWithoutALimitOfTheBody: the limit of messages follows from that of bodies, and does not
// overflow.
func TestCallsWithoutALimitOfTheBody(t *testing.T) {
	callsPlane(t, gateway.Route{Subject: "work", Timeout: time.Minute, MaxBody: math.MaxInt64}, relay.CallerOptions{}, work(nil), func(ctx context.Context, t *testing.T, url string, h *gateway.Handler, w *relay.Worker) error {
		c, err := dialCalls(ctx, url)
		if err != nil {
			return err
		}
		defer c.CloseNow()
		body := strings.Repeat("x", 10_000)
		if err := send(ctx, c, `{"type":"call","id":1,"body":"`+body+`"}`); err != nil {
			return err
		}
		expect(ctx, t, c, `{"type":"item","id":1,"body":"`+body+`"}`, `{"type":"end","id":1}`)
		return nil
	})
}

// TestCallsWithCredit: a stream sends as many items as the client allows. Its worker waits, other calls
// go on, and the end needs no credit.
func TestCallsWithCredit(t *testing.T) {
	var sent atomic.Int64
	const total = 100
	handler := func(ctx context.Context, r *relay.Request) ([]byte, error) {
		if string(r.Body) != "stream" {
			return r.Body, nil
		}
		for i := range total {
			if err := r.Send(ctx, fmt.Append(nil, i)); err != nil {
				return nil, err
			}
			sent.Add(1)
		}
		return nil, nil
	}
	callsPlane(t, gateway.Route{Subject: "work", Timeout: time.Minute}, relay.CallerOptions{Window: 4}, handler, func(ctx context.Context, t *testing.T, url string, h *gateway.Handler, w *relay.Worker) error {
		c, err := dialCalls(ctx, url)
		if err != nil {
			return err
		}
		defer c.CloseNow()
		sent.Store(0)
		if err := send(ctx, c, `{"type":"call","id":1,"body":"stream","credit":3}`); err != nil {
			return err
		}
		expect(ctx, t, c, `{"type":"item","id":1,"body":"0"}`, `{"type":"item","id":1,"body":"1"}`, `{"type":"item","id":1,"body":"2"}`)
		if err := send(ctx, c, `{"type":"call","id":2,"body":"other"}`); err != nil {
			return err
		}
		expect(ctx, t, c, `{"type":"item","id":2,"body":"other"}`, `{"type":"end","id":2}`)
		if n := sent.Load(); n > 3+1+4 { // read, in the gateway's hand, and the Caller's window
			t.Errorf("the worker has sent %d items", n)
		}
		if err := send(ctx, c, `{"type":"credit","id":1,"n":4294967295}`, `{"type":"credit","id":1,"n":97}`); err != nil {
			return err
		}
		for i := 3; i < total; i++ {
			expect(ctx, t, c, fmt.Sprintf(`{"type":"item","id":1,"body":"%d"}`, i))
		}
		expect(ctx, t, c, `{"type":"end","id":1}`)
		return nil
	})
}

// TestCallWithoutCredit ends at its deadline, if it is a stream: it has the credit of a reply.
func TestCallWithoutCredit(t *testing.T) {
	callsPlane(t, gateway.Route{Subject: "work", Timeout: 3 * time.Second}, relay.CallerOptions{}, work(nil), func(ctx context.Context, t *testing.T, url string, h *gateway.Handler, w *relay.Worker) error {
		c, err := dialCalls(ctx, url)
		if err != nil {
			return err
		}
		defer c.CloseNow()
		if err := send(ctx, c, `{"type":"call","id":3,"body":"items"}`); err != nil {
			return err
		}
		expect(ctx, t, c, `{"type":"item","id":3,"body":"one"}`, `{"type":"error","id":3,"status":504,"reason":"timeout"}`)
		if s := h.Stats(); s.TimedOut != 1 || s.OK != 0 {
			t.Errorf("%+v", s)
		}
		return until(ctx, func() bool { return w.Stats().Running == 0 })
	})
}

// TestCallsOfBadClients: a Close says what was wrong, and the calls of the connection end.
func TestCallsOfBadClients(t *testing.T) {
	callsPlane(t, gateway.Route{Subject: "work", Timeout: time.Minute, MaxBody: 1000}, relay.CallerOptions{}, work(nil), func(ctx context.Context, t *testing.T, url string, h *gateway.Handler, w *relay.Worker) error {
		for _, bad := range []struct {
			frame  string
			code   ws.Code
			reason string
		}{
			{"hello", ws.InvalidData, "not a frame in JSON"},
			{`[]`, ws.InvalidData, "not a frame in JSON"},
			{`{"type":"call","id":11} {}`, ws.InvalidData, "not a frame in JSON"},
			{`{"type":"call","id":"11"}`, ws.InvalidData, "not a frame in JSON"},
			{`{"id":11}`, ws.InvalidData, "a frame without a type"},
			{`{"type":"end","id":11}`, ws.InvalidData, "no frame from a client has this type"},
			{`{"type":"call"}`, ws.InvalidData, "call: id must be an integer from 1 to 2^53-1"},
			{`{"type":"call","id":9007199254740992}`, ws.InvalidData, "call: id must be an integer from 1 to 2^53-1"},
			{`{"type":"call","id":11,"body":"","data":""}`, ws.InvalidData, "call: both body and data"},
			{`{"type":"call","id":11,"data":"?"}`, ws.InvalidData, "call: data is not base64"},
			{`{"type":"credit","id":10}`, ws.InvalidData, "credit: n must be from 1 to 4294967295"},
			{`{"type":"call","id":10}`, ws.PolicyViolation, "call: the id 10 is not larger than 10"},
			{`{"type":"call","id":4}`, ws.PolicyViolation, "call: the id 4 is not larger than 10"},
			{`{"type":"cancel","id":11}`, ws.PolicyViolation, "cancel: no call had the id 11"},
			{`{"type":"credit","id":11,"n":1}`, ws.PolicyViolation, "credit: no call had the id 11"},
			{`{"type":"call","id":11,"body":"` + strings.Repeat("x", 7000) + `"}`, ws.MessageTooBig, ""},
			{"", ws.UnsupportedData, "frames are text"},
		} {
			c, err := dialCalls(ctx, url)
			if err != nil {
				return err
			}
			if err := send(ctx, c, `{"type":"call","id":10,"body":"wait"}`); err != nil {
				return err
			}
			if err := until(ctx, func() bool { return w.Stats().Running == 1 }); err != nil {
				return err
			}
			before := h.Stats()
			if bad.frame == "" {
				err = c.Write(ctx, ws.Binary, []byte{1})
			} else {
				err = send(ctx, c, bad.frame)
			}
			if err != nil {
				return err
			}
			if bad.code == ws.MessageTooBig {
				if _, err := frameFrom(ctx, c); ws.CodeOf(err) != bad.code {
					t.Errorf("got %v", err)
				}
			} else {
				expectClose(ctx, t, c, bad.code, bad.reason)
			}
			err = until(ctx, func() bool {
				s := h.Stats()
				return w.Stats().Running == 0 && s.Refused == before.Refused+1 && s.ClientGone == before.ClientGone+1
			})
			if err != nil {
				return fmt.Errorf("after %.40s: %w, %+v", bad.frame, err, h.Stats())
			}
			c.CloseNow()
		}
		return nil
	})
}

// FuzzCalls sends a frame: the server answers with frames, or closes with a reason.
func FuzzCalls(f *testing.F) {
	for _, frame := range []string{`{"type":"call","id":1,"body":"x"}`, `{"type":"credit","id":1,"n":1}`, `{"type":"cancel"}`, `{"id":1e3}`, `null`} {
		f.Add(frame)
	}
	f.Fuzz(func(t *testing.T, frame string) {
		parsed, err := gateway.ParseCallFrame([]byte(frame))
		if err == nil && (parsed.ID == 0 || parsed.Type == "" || !json.Valid([]byte(frame))) {
			t.Errorf("%q is taken as %+v", frame, parsed)
		}
		if err != nil && len(err.Error()) > 123 {
			t.Errorf("the reason of a Close is too long: %q", err)
		}
	})
}
