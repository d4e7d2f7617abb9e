package web_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/web"
)

// TestTransportHTTP2HostileResponses end the request with an error, and do not hang.
func TestTransportHTTP2HostileResponses(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]func(p *peer, id uint32){
		"data before a header": func(p *peer, id uint32) { p.send(dataFrame, endStream, id, []byte("x")) },
		"no status":            func(p *peer, id uint32) { p.send(headersFrame, endHeaders|endStream, id, p.block("a", "b")) },
		"status 101":           func(p *peer, id uint32) { p.send(headersFrame, endHeaders, id, p.block(":status", "101")) },
		"interim at the end":   func(p *peer, id uint32) { p.send(headersFrame, endHeaders|endStream, id, p.block(":status", "103")) },
		"too many interims": func(p *peer, id uint32) {
			for range 100 {
				p.send(headersFrame, endHeaders, id, p.block(":status", "103"))
			}
		},
		"connection field": func(p *peer, id uint32) {
			p.send(headersFrame, endHeaders|endStream, id, p.block(":status", "200", "connection", "close"))
		},
		"too large": func(p *peer, id uint32) {
			p.send(headersFrame, endHeaders|endStream, id, p.block(":status", "200", "a", strings.Repeat("x", 10_000)))
		},
		"shorter than it says": func(p *peer, id uint32) {
			p.send(headersFrame, endHeaders, id, p.block(":status", "200", "content-length", "5"))
			p.send(dataFrame, endStream, id, []byte("xx"))
		},
		"nothing of what it says": func(p *peer, id uint32) {
			p.send(headersFrame, endHeaders|endStream, id, p.block(":status", "200", "content-length", "5"))
		},
		"push": func(p *peer, id uint32) { p.send(5, endHeaders, id, append(number(2), p.block(":status", "200")...)) },
		"priority update": func(p *peer, id uint32) {
			p.send(priorityUpdateFrame, 0, 0, append(number(id), "u=1"...))
			p.send(headersFrame, endHeaders|endStream, id, p.block(":status", "200"))
		},
		"a large frame": func(p *peer, id uint32) { p.send(dataFrame, 0, id, make([]byte, 20_000)) },
		"reset":         func(p *peer, id uint32) { p.send(resetFrame, 0, id, number(uint32(http2.InternalError))) },
		"the end":       func(p *peer, id uint32) { p.nc.Close() },
		"no frames":     func(p *peer, id uint32) { io.WriteString(p.nc, "HTTP/1.1 400 Bad Request\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			base := h2script(t, func(n int, p *peer) {
				if id, err := p.awaitHead(); err == nil {
					say(p, id)
					p.drainReads()
				}
			})
			tasks(t, func(ctx context.Context) {
				c := &http.Client{Transport: &web.Transport{Protocols: h2c(), MaxHeaderBytes: 4 << 10}}
				_, _, err := do(ctx, c, "GET", base, nil)
				if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				c.CloseIdleConnections()
			})
		})
	}
}

// TestTransportHTTP2InGrace makes a request in a run that ends.
func TestTransportHTTP2InGrace(t *testing.T) {
	t.Parallel()
	bothHTTP2(t, everything, func(t *testing.T, base string, _ *atomic.Int32) {
		c := &http.Client{Transport: &web.Transport{Protocols: h2c()}}
		ctx, cancel := context.WithCancel(t.Context())
		err := spindle.Run(ctx, func(ctx context.Context) error {
			return spindle.Grace(ctx, 20*time.Second, func(ctx context.Context) error {
				for i := range 3 {
					_, got, err := do(ctx, c, "PUT", base+"/echo", strings.NewReader("hello"))
					if err != nil || !strings.HasPrefix(got, "5 <nil>") {
						t.Errorf("got %q, %v", got, err)
					}
					if _, got, err := do(ctx, c, "GET", base+"/long", nil); len(got) != 1<<20 || err != nil {
						t.Errorf("got %d bytes, %v", len(got), err)
					}
					if i == 0 {
						cancel()
						spindle.Yield(ctx)
					}
				}
				return nil
			})
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestTransportHTTP2LeftOpen: a body that is not read does not keep the run from ending.
func TestTransportHTTP2LeftOpen(t *testing.T) {
	t.Parallel()
	bothHTTP2(t, everything, func(t *testing.T, base string, _ *atomic.Int32) {
		tasks(t, func(ctx context.Context) {
			req, _ := http.NewRequestWithContext(ctx, "GET", base+"/long", nil)
			if _, err := (&web.Transport{Protocols: h2c()}).RoundTrip(req); err != nil {
				t.Error(err)
			}
		})
	})
}

// TestTransportHTTP2IdleConnectionEnds after the time-out, with CloseIdleConnections, and if
// none may be kept. The server sees a GOAWAY.
func TestTransportHTTP2IdleConnectionEnds(t *testing.T) {
	t.Parallel()
	for name, tr := range map[string]*web.Transport{
		"time-out": {IdleTimeout: time.Millisecond},
		"close":    {},
		"none":     {MaxIdle: -1},
	} {
		codes := make(chan http2.Code, 1)
		base := h2script(t, func(n int, p *peer) {
			p.answer(p.head(), "ok")
			codes <- p.ended()
		})
		tr.Protocols = h2c()
		tasks(t, func(ctx context.Context) {
			if _, got, err := do(ctx, &http.Client{Transport: tr}, "GET", base, nil); got != "ok" || err != nil {
				t.Errorf("%s: got %q, %v", name, got, err)
			}
			if name == "close" {
				tr.CloseIdleConnections()
			}
			code, _ := spindle.Blocking(ctx, func() (http2.Code, error) { return <-codes, nil })
			if code != http2.NoError {
				t.Errorf("%s: got %v", name, code)
			}
		})
	}
}

// TestTransportHTTP2FromGoroutines, with bodies both ways.
func TestTransportHTTP2FromGoroutines(t *testing.T) {
	t.Parallel()
	bothHTTP2(t, everything, func(t *testing.T, base string, _ *atomic.Int32) {
		tasks(t, func(ctx context.Context) {
			c := &http.Client{Transport: &web.Transport{Protocols: h2c(), Context: ctx}}
			err := spindle.ForEach(ctx, 10, make([]int, 10), func(ctx context.Context, _ int) error {
				_, err := spindle.Blocking(ctx, func() (int, error) {
					_, got, err := do(context.Background(), c, "POST", base+"/echo", io.MultiReader(bytes.NewReader(block(300_000))))
					if err == nil && !strings.HasPrefix(got, "300000 <nil>") {
						err = fmt.Errorf("got %q", got)
					}
					if err != nil {
						return 0, err
					}
					if _, got, err = do(context.Background(), c, "GET", base+"/long", nil); err == nil && got != string(block(1<<20)) {
						err = errors.New("a download is wrong")
					}
					return 0, err
				})
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	})
}

// endless is a body without end. It counts its Closes.
type endless struct{ closed atomic.Int32 }

func (e *endless) Read(p []byte) (int, error) { return len(p), nil }
func (e *endless) Close() error               { e.closed.Add(1); return nil }

// TestTransportHTTP2UploadEndsWithItsResponse: the server has answered, and takes what else is
// sent. The client ends the upload.
func TestTransportHTTP2UploadEndsWithItsResponse(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "done"} {
		codes := make(chan http2.Code, 1)
		base := h2script(t, func(n int, p *peer) {
			id := p.head()
			if body != "" {
				p.answer(id, body)
			} else {
				p.send(headersFrame, endHeaders|endStream, id, p.block(":status", "204"))
			}
			for {
				switch f, err := p.read(); {
				case err != nil:
					codes <- http2.InternalError
					return
				case f.kind == resetFrame:
					codes <- f.code()
					p.drainReads()
					return
				case f.kind == dataFrame:
					p.send(windowFrame, 0, 0, number(uint32(len(f.payload))))
					p.send(windowFrame, 0, id, number(uint32(len(f.payload))))
				}
			}
		})
		upload := &endless{}
		tasks(t, func(ctx context.Context) {
			c := &http.Client{Transport: &web.Transport{Protocols: h2c()}}
			if _, got, err := do(ctx, c, "POST", base, upload); got != body || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			code, _ := spindle.Blocking(ctx, func() (http2.Code, error) { return <-codes, nil })
			if code != http2.Cancel {
				t.Errorf("the stream ended with %v", code)
			}
			c.CloseIdleConnections()
		})
		if n := upload.closed.Load(); n != 1 {
			t.Errorf("the body was closed %d times", n)
		}
	}
}
