package retention_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/web"
)

// TestUploadsGiveTheirMemoryBack: after many uploads at the same time the heap is as small as
// before, although the server goes on.
func TestUploadsGiveTheirMemoryBack(t *testing.T) {
	const size, slack = 1 << 20, 8 << 20
	uploads := 200
	if testing.Short() {
		uploads = 40
	}
	together := cosync.NewBarrier(uploads)
	handler := web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body)) // for another handler
		if err == nil {
			_, err = together.Wait(r.Context())
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, len(body))
	}))
	data := make([]byte, size)
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		sv, err := (&web.Server{Handler: handler}).Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		transport := &web.Transport{}
		upload := func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, "POST", "http://"+sv.Addr().String(), bytes.NewReader(data))
			if err != nil {
				return err
			}
			res, err := transport.RoundTrip(req)
			if err != nil {
				return err
			}
			defer res.Body.Close()
			got, err := io.ReadAll(res.Body)
			if err == nil && string(got) != fmt.Sprint(size) {
				err = fmt.Errorf("%s: %s", res.Status, got)
			}
			return err
		}
		before := heap()
		err = spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for range uploads {
				n.Go(upload)
			}
			return nil
		})
		transport.CloseIdleConnections()
		for began := time.Now(); err == nil && heap() > before+slack; {
			if time.Since(began) > patience {
				err = fmt.Errorf("%d bytes are kept", heap()-before)
			}
			err = errors.Join(err, spindle.Sleep(ctx, time.Millisecond))
		}
		return errors.Join(err, sv.Shutdown(ctx))
	})
	if err != nil {
		t.Error(err)
	}
}

// heap returns the bytes in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
