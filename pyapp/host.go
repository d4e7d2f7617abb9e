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

// maxSmall is the size of a body that the goroutine which reads frames may decode.
const maxSmall = 4 << 10

// maxUntaken is how many values that a worker has sent may wait for their inboxes.
const maxUntaken = 1024

// hosted is a call of a Go function by a worker, or a value that it has sent.
type hosted struct {
	w      *worker
	id     uint64
	depth  int
	body   []byte
	cancel context.CancelCauseFunc
	flow   *flow // of a stream; otherwise nil

	// set by find
	found    bool
	call     call
	function *function
	missing  error // why there is no function
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

// host calls a Go function, and reports whether the goroutine still reads frames. Only for read.
func (w *worker) host(e *relay.Envelope) (reads bool) {
	h := &hosted{w: w, id: e.ID, body: e.Body}
	h.depth, _ = strconv.Atoi(e.Headers[depthHeader])
	if e.Headers[opHeader] == opSend {
		w.enqueue(h)
		return true
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
	return w.readers.call(h.quick(), func() {
		defer stop()
		defer h.end()
		h.run(ctx)
	})
}

// quick returns the pace of the function if the call is expected to return soon, without waiting, and otherwise nil.
func (h *hosted) quick() *pace {
	if h.flow != nil || len(h.body) > maxSmall || h.depth > maxDepth {
		return nil
	}
	h.find()
	if h.missing != nil || !h.function.pace.isQuick() {
		return nil
	}
	if slots := h.w.a.slots(h.depth); len(slots) == cap(slots) {
		return nil
	}
	return &h.function.pace
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
func (h *hosted) run(ctx context.Context) {
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
	result, err = h.result(ctx)
}

func (h *hosted) result(ctx context.Context) ([]byte, error) {
	h.find()
	f := h.function
	switch {
	case h.missing != nil:
		return nil, h.missing
	case h.depth > maxDepth:
		return nil, fmt.Errorf("%s: more than %d calls from Python to Go inside each other", h.call.Name, maxDepth)
	case f.put != nil:
		return nil, fmt.Errorf("%s is an inbox, and not a function", h.call.Name)
	case (f.stream != nil) != (h.flow != nil):
		return nil, fmt.Errorf("%s: spindle.stream is for functions of HandleStream, and only for those", h.call.Name)
	}
	slots := h.w.a.slots(h.depth)
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-slots }()
	if f.stream != nil {
		return nil, h.flow.run(ctx, f, h.call.Args)
	}
	began := now()
	defer func() { f.pace.note(now().Sub(began)) }()
	return f.call(ctx, h.call.Args)
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

// find decodes the call and looks up its function.
func (h *hosted) find() {
	if h.found {
		return
	}
	h.found = true
	if !h.call.cut(h.body) {
		if h.missing = decoding.Unmarshal(h.body, &h.call); h.missing != nil {
			return
		}
	}
	a := h.w.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if h.function = a.functions[h.call.Name]; h.function == nil {
		h.missing = &unknown{h.call.Name}
	}
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
func (w *worker) enqueue(h *hosted) {
	if w.sent == nil {
		w.sent = make(chan *hosted, maxUntaken)
		sent := w.sent
		w.a.goForPython(func() { w.deliver(sent) })
	}
	select {
	case w.sent <- h:
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

// deliver puts values into their inboxes until the worker ends.
func (w *worker) deliver(sent chan *hosted) {
	for {
		select {
		case <-w.life.Done():
			return
		case h := <-sent:
			if err := h.deliver(); err != nil {
				h.fail(err)
			} else {
				h.reply(nil, nil)
			}
		}
	}
}

func (h *hosted) deliver() error {
	h.find()
	switch {
	case h.missing != nil:
		return h.missing
	case h.function.put == nil:
		return fmt.Errorf("%s is a function, and not an inbox", h.call.Name)
	}
	return h.function.put(h.w.life, h.call.Args)
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
