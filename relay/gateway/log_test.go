package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// TestErrorLog: the error of a handler, which its client does not see, is logged.
func TestErrorLog(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serve(t, bus, "work", relay.ServeOptions{}, work(nil))
	var log strings.Builder // written on the loop
	webPlane(t, bus, relay.CallerOptions{}, func(c *relay.Caller) http.Handler {
		return web.Inline(gateway.New(c, gateway.Route{Subject: "work", ErrorLog: slog.New(slog.NewTextHandler(&log, nil))}))
	}, func(ctx context.Context, url string) error {
		_, text, err := post(ctx, url, "", "fail")
		if strings.Contains(text, "secret") || !strings.Contains(log.String(), "relay: work: error: secret") {
			t.Errorf("answer %q, log %q", text, log.String())
		}
		return err
	})
}

// TestErrorLogOfAStream: the log has what the client got.
func TestErrorLogOfAStream(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	serve(t, bus, "work", relay.ServeOptions{}, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		return nil, errors.Join(r.Send(ctx, []byte("item")), errors.New("secret"))
	})
	var log strings.Builder // written on the loop
	webPlane(t, bus, relay.CallerOptions{}, func(c *relay.Caller) http.Handler {
		return web.Inline(gateway.New(c, gateway.Route{Subject: "work", ErrorLog: slog.New(slog.NewTextHandler(&log, nil))}))
	}, func(ctx context.Context, url string) error {
		res, _, err := post(ctx, url, "text/event-stream", "")
		if err != nil {
			return err
		}
		if res.StatusCode != 200 || !strings.Contains(log.String(), "status=200 event=error err=") {
			t.Errorf("%s, log %q", res.Status, log.String())
		}
		log.Reset()
		socket, err := ws.Dial(ctx, "ws"+strings.TrimPrefix(url, "http"), ws.Options{})
		if err != nil {
			return err
		}
		defer socket.CloseNow()
		err = socket.Write(ctx, ws.Text, nil)
		for err == nil {
			_, _, err = socket.Read(ctx)
		}
		var closed *ws.CloseError
		if !errors.As(err, &closed) || closed.Code != ws.InternalError || !strings.Contains(log.String(), "close=1011 err=") {
			t.Errorf("%v, log %q", err, log.String())
		}
		return nil
	})
}

// TestWithoutAWorker: it is logged once until a call succeeds, with the subject.
func TestWithoutAWorker(t *testing.T) {
	bus := relay.NewLocal(relay.LocalOptions{})
	var log strings.Builder // written on the loop
	webPlane(t, bus, relay.CallerOptions{}, func(c *relay.Caller) http.Handler {
		return web.Inline(gateway.New(c, gateway.Route{Subject: "work", ErrorLog: slog.New(slog.NewTextHandler(&log, nil))}))
	}, func(ctx context.Context, url string) error {
		for outage := 1; outage <= 2; outage++ {
			for range 3 {
				if res, _, err := post(ctx, url, "", ""); err != nil || res.StatusCode != http.StatusServiceUnavailable {
					return fmt.Errorf("%+v, %w", res, err)
				}
			}
			if n := strings.Count(log.String(), "level=WARN msg=\"relay: no worker serves the subject of a route\" subject=work"); n != outage {
				t.Errorf("outage %d: log %q", outage, log.String())
			}
			_, stop := serve(t, bus, "work", relay.ServeOptions{}, echo)
			if res, _, err := post(ctx, url, "", ""); err != nil || res.StatusCode != http.StatusOK {
				return fmt.Errorf("%+v, %w", res, err)
			}
			_ = stop() // the error of its context
		}
		return nil
	})
}

// refusingBus refuses calls with an error, if there is one.
type refusingBus struct {
	relay.Bus
	err error // set on the loop
}

func (b *refusingBus) Publish(ctx context.Context, e *relay.Envelope) error {
	if b.err != nil {
		return b.err
	}
	return b.Bus.Publish(ctx, e)
}

func (b *refusingBus) TryPublish(e *relay.Envelope) error {
	if b.err != nil {
		return b.err
	}
	return b.Bus.TryPublish(e)
}

// TestRefusalsAreLogged: a bus that is down is logged once until a call succeeds. A full
// one is logged once in a minute, because calls succeed in between.
func TestRefusalsAreLogged(t *testing.T) {
	local := relay.NewLocal(relay.LocalOptions{})
	bus := &refusingBus{Bus: local}
	serve(t, local, "work", relay.ServeOptions{}, echo)
	var log strings.Builder // written on the loop
	webPlane(t, bus, relay.CallerOptions{FailWhenFull: true}, func(c *relay.Caller) http.Handler {
		return web.Inline(gateway.New(c, gateway.Route{Subject: "work", ErrorLog: slog.New(slog.NewTextHandler(&log, nil))}))
	}, func(ctx context.Context, url string) error {
		for outage := 1; outage <= 2; outage++ {
			for range 3 {
				for _, bus.err = range []error{relay.ErrDown, relay.ErrFull} {
					if res, _, err := post(ctx, url, "", ""); err != nil || res.StatusCode != http.StatusServiceUnavailable {
						return fmt.Errorf("%+v, %w", res, err)
					}
				}
			}
			if n := strings.Count(log.String(), `level=WARN msg="relay: the bus of a route is not connected" subject=work`); n != outage {
				t.Errorf("outage %d: log %q", outage, log.String())
			}
			if n := strings.Count(log.String(), `level=WARN msg="relay: calls of a route are refused because the plane is full" subject=work`); n != 1 {
				t.Errorf("outage %d: log %q", outage, log.String())
			}
			bus.err = nil
			if res, _, err := post(ctx, url, "", ""); err != nil || res.StatusCode != http.StatusOK {
				return fmt.Errorf("%+v, %w", res, err)
			}
		}
		return nil
	})
}
