package pyapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/tracing"
)

// maxDepth is how long a chain of calls Go → Python → Go may be.
const maxDepth = 16

// maxUntaken is how many values that a worker has sent may wait for their inboxes.
const maxUntaken = 1024

// hosted is a call of a Go function by a worker, or a value that it has sent.
type hosted struct {
	w      *worker
	id     uint64
	depth  int
	cancel context.CancelCauseFunc
	flow   *flow // of a stream; otherwise nil
}

// call is the body of a request of a worker.
type call struct {
	_    struct{} `cbor:",toarray"`
	Name string
	Args []cbor.RawMessage
}

// chainKey is the key of the hosted call in a context.
type chainKey struct{}

// chainOf returns the call of a Go function that ctx belongs to, or nil.
func chainOf(ctx context.Context) *hosted {
	h, _ := ctx.Value(chainKey{}).(*hosted)
	return h
}

// The headers of requests, besides opHeader.
const (
	depthHeader = "depth" // how many calls of Go functions are around the call; absent for none
	opSend      = "send"  // the request is a value for an inbox
)

// host starts a call of a Go function. Read calls it only.
func (w *worker) host(e *relay.Envelope) {
	h := &hosted{w: w, id: e.ID}
	h.depth, _ = strconv.Atoi(e.Headers[depthHeader])
	if e.Headers[opHeader] == opSend {
		w.enqueue(h, e.Body)
		return
	}
	ctx := tracing.With(context.WithValue(w.life, chainKey{}, h), e.Trace)
	stop := func() {}
	if e.Deadline > 0 {
		ctx, stop = context.WithTimeout(ctx, e.Deadline)
	}
	ctx, h.cancel = context.WithCancelCause(ctx)
	if e.Seq > 0 {
		h.flow = newFlow(h, e.Seq)
	}
	w.a.mu.Lock()
	w.hosted[h.id] = h
	w.a.mu.Unlock()
	w.runners.run(func() {
		defer stop()
		defer h.end()
		h.run(ctx, e.Body)
	})
}

// end forgets the call.
func (h *hosted) end() {
	h.cancel(nil)
	a := h.w.a
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(h.w.hosted, h.id)
}

// run calls the function and answers.
func (h *hosted) run(ctx context.Context, body []byte) {
	err := errors.New("the function has ended its goroutine")
	var result []byte
	defer func() { // also after runtime.Goexit
		if p := recover(); p != nil {
			h.w.a.log().Error("pyapp: a function that Python has called panics", "panic", p, "stack", string(debug.Stack()))
			err = panicked{p}
		}
		switch err {
		case nil:
			h.reply(result, nil)
		case errRaw:
			h.reply(result, map[string]string{rawHeader: "1"})
		default:
			h.fail(err)
		}
	}()
	result, err = h.call(ctx, body)
}

func (h *hosted) call(ctx context.Context, body []byte) ([]byte, error) {
	c, f, err := h.w.a.find(body)
	switch {
	case err != nil:
		return nil, err
	case h.depth > maxDepth:
		return nil, fmt.Errorf("%s: more than %d calls from Python to Go inside each other", c.Name, maxDepth)
	case f.put != nil:
		return nil, fmt.Errorf("%s is an inbox, and not a function", c.Name)
	case (f.stream != nil) != (h.flow != nil):
		return nil, fmt.Errorf("%s: spindle.stream is for functions of HandleStream, and only for those", c.Name)
	}
	slots := h.w.a.slots(h.depth)
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-slots }()
	if f.stream != nil {
		return nil, h.flow.run(ctx, f, c.Args)
	}
	return f.call(ctx, c.Args)
}

// slots returns a channel with as many places as calls of a depth may run. Calls wait only for
// calls of a greater depth, so they cannot wait for each other.
func (a *App) slots(depth int) chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.limits == nil {
		a.limits = map[int]chan struct{}{}
	}
	if a.limits[depth] == nil {
		a.limits[depth] = make(chan struct{}, a.maxGoCalls())
	}
	return a.limits[depth]
}

// find returns the function of a request.
func (a *App) find(body []byte) (c call, f *function, err error) {
	if !c.cut(body) {
		if err := decoding.Unmarshal(body, &c); err != nil {
			return c, nil, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if f = a.functions[c.Name]; f == nil {
		return c, nil, &unknown{c.Name}
	}
	return c, f, nil
}

// cut decodes the body of a call with a short name and at most one argument, which takes the codec longer than the rest of
// a small call. It reports false for any other body.
func (c *call) cut(body []byte) bool {
	const array, text, longest = 4 << 5, 3 << 5, 23
	if len(body) < 3 || body[0] != array|2 || body[1]&^31 != text || body[1]&31 > longest {
		return false
	}
	name := int(body[1] & 31)
	if len(body) < 3+name || !utf8.Valid(body[2:2+name]) {
		return false
	}
	args := body[3+name:]
	switch head := body[2+name]; {
	case head == array && len(args) == 0:
	case head == array|1 && decoding.Wellformed(args) == nil:
		c.Args = []cbor.RawMessage{args}
	default:
		return false
	}
	c.Name = string(body[2 : 2+name])
	return true
}

// unknown is the error for a name that has no function.
type unknown struct{ name string }

func (e *unknown) Error() string { return fmt.Sprintf("the Go program has no function %q", e.name) }

// panicked is the error of a function that panics.
type panicked struct{ value any }

func (e panicked) Error() string { return fmt.Sprint("panic: ", e.value) }

// errRaw is the error of a function with a result that is large bytes, which are sent as they are.
var errRaw = errors.New("pyapp: large bytes")

// reply answers with a result.
func (h *hosted) reply(body []byte, headers map[string]string) {
	if limit := h.w.a.maxCallBytes(); len(body) > limit {
		h.fail(fmt.Errorf("the result has %d bytes; MaxCallBytes is %d", len(body), limit))
		return
	}
	h.answer(&relay.Envelope{Kind: relay.KindReply, ID: h.id, Headers: headers}, body)
}

func (h *hosted) fail(err error) {
	report := map[string]string{"type": typeName(err), "message": err.Error()}
	if raised := (*Error)(nil); errors.As(err, &raised) {
		report["traceback"] = raised.Traceback
	}
	if errors.As(err, new(*unknown)) {
		report["reason"] = "unknown"
	}
	body, err := json.Marshal(report)
	if err != nil {
		panic("pyapp: " + err.Error()) // texts can be encoded
	}
	h.answer(&relay.Envelope{Kind: relay.KindFailure, ID: h.id}, body)
}

// answer sends a frame, unless the worker ends.
func (h *hosted) answer(e *relay.Envelope, body []byte) {
	f, err := newFrame(e, body)
	if err != nil {
		panic("pyapp: " + err.Error()) // the size was checked
	}
	_ = h.w.out.put(h.w.life, f)
}

// typeName returns the name of an error's type: of the first one in its chain that says more than
// that it wraps another.
func typeName(err error) string {
	for {
		switch name := reflect.TypeOf(err).String(); name {
		case "*fmt.wrapError", "*errors.joinError", "*fmt.wrapErrors":
			if inner := errors.Unwrap(err); inner != nil {
				err = inner
				continue
			}
			return "error"
		case "*errors.errorString":
			return "error"
		default:
			return name
		}
	}
}

// enqueue queues a value for an inbox, behind those that the worker has sent before.
func (w *worker) enqueue(h *hosted, body []byte) {
	if w.sent == nil {
		w.sent = make(chan sent, maxUntaken)
		w.a.goForPython(w.deliver)
	}
	select {
	case w.sent <- sent{h, body}:
	default:
		w.post(&relay.Envelope{Kind: relay.KindFailure, ID: h.id}) // Python never sends so many
	}
}

// goForPython runs fn on a goroutine. Shutdown waits for its end.
func (a *App) goForPython(fn func()) {
	a.mu.Lock()
	a.hosting++
	a.mu.Unlock()
	go func() {
		defer func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.hosting--; a.hosting == 0 {
				a.changed()
			}
		}()
		fn()
	}()
}

// sent is a value for an inbox.
type sent struct {
	h    *hosted
	body []byte
}

// deliver puts values into their inboxes until the worker ends.
func (w *worker) deliver() {
	for {
		select {
		case <-w.life.Done():
			return
		case s := <-w.sent:
			c, f, err := w.a.find(s.body)
			if err == nil && f.put == nil {
				err = fmt.Errorf("%s is a function, and not an inbox", c.Name)
			}
			if err == nil {
				err = f.put(w.life, c.Args)
			}
			if err != nil {
				s.h.fail(err)
			} else {
				s.h.reply(nil, nil)
			}
		}
	}
}

// chain adds to a request what a call of Python in a chain of calls needs.
func chain(ctx context.Context, e *relay.Envelope) {
	e.Trace = tracing.Of(ctx)
	e.Trace.State = "" // Python passes on the traceparent only
	if due, ok := ctx.Deadline(); ok {
		e.Deadline = max(time.Until(due), time.Microsecond)
	}
	if h := chainOf(ctx); h != nil {
		e.Headers = map[string]string{depthHeader: strconv.Itoa(h.depth)}
	}
}
