// A Server reads the inbox after each poll and runs the app for each request.
#include "asgi.h"
#include <stdio.h>
#include <structmember.h>
#include <time.h>

void websocket_end(Exchange *x, bool failed); // asgi_websocket.c

// The Go half. The functions are looked up by the first server.
static struct {
    SpindleMailbox *(*serve)(int loop, const char *config, int size, char *message, int capacity);
    int (*drain)(int loop);
    int (*abort)(int loop);
} go;

static int load(void) {
    return golib_symbol("SpindleServe", (void **)&go.serve) < 0 || golib_symbol("SpindleDrain", (void **)&go.drain) < 0 ||
                   golib_symbol("SpindleAbort", (void **)&go.abort) < 0 || outbox_load() < 0
               ? -1
               : 0;
}

const char *server_date(Server *s) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec != s->date_second) {
        struct tm t;
        gmtime_r(&now.tv_sec, &t);
        // Not with strftime: its names depend on the locale.
        static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
        snprintf(s->date, sizeof s->date, "date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n", days + 3 * t.tm_wday,
                 t.tm_mday, months + 3 * t.tm_mon, (t.tm_year + 1900) % 10000, t.tm_hour, t.tm_min, t.tm_sec);
        s->date_second = now.tv_sec;
    }
    return s->date;
}

void server_release(Exchange *x) {
    x->released = true;
    heads_remove(x);
    if (x->slot < x->server->slots && x->server->by_slot[x->slot] == x)
        x->server->by_slot[x->slot] = NULL;
}

// Running the app.

// add makes the list of running exchanges own x.
static void add(Server *s, Exchange *x) {
    s->active++;
    s->by_slot[x->slot] = x;
    x->next = s->running;
    if (x->next)
        x->next->prev = x;
    s->running = x;
}

static void tell(Server *s, const char *event) {
    PyObject *r = PyObject_CallFunction(s->event, "s", event);
    if (!r)
        PyErr_WriteUnraisable(s->event);
    Py_XDECREF(r);
}

// report passes the failure of an app to Python, to be logged. It takes the pending
// exception, if there is one.
static void report(Exchange *x, const char *what) {
    PyObject *exc = exception_take();
    PyObject *r = PyObject_CallFunction(x->server->report, "sO", what, exc ? exc : Py_None);
    if (!r)
        PyErr_WriteUnraisable(x->server->report);
    Py_XDECREF(r);
    Py_XDECREF(exc);
}

// settle ends the exchange. The app has failed if an exception is set.
static void settle(Exchange *x, PyObject *result) {
    Server *s = x->server;
    bool failed = !result;
    if (failed && x->lost && PyErr_ExceptionMatches(s->disconnected)) {
        PyErr_Clear(); // the app had nothing more to do
        failed = false;
    } else if (failed) {
        report(x, "failed");
    } else if (result != Py_None) {
        PyErr_Format(PyExc_TypeError, "the app returned %.200R instead of None", result);
        report(x, "returned");
    }
    if (is_websocket(x)) {
        if ((x->phase == WS_CONNECTING || x->phase == WS_DENYING) && !x->gone && !failed)
            report(x, x->phase == WS_CONNECTING ? "no handshake" : "incomplete response");
        websocket_end(x, failed);
    } else {
        if (!failed && x->phase != RESPONSE_DONE && !x->lost && !x->told)
            report(x, x->phase == RESPONSE_NONE ? "no response" : "incomplete response");
        exchange_fail(x, failed);
    }
    if (s->box)
        exchange_wake(x); // tasks of the app may still wait
    Py_CLEAR(x->task);
    s->active--;
    server_release(x);
    if (x->prev)
        x->prev->next = x->next;
    else
        s->running = x->next;
    if (x->next)
        x->next->prev = x->prev;
    x->prev = x->next = NULL;
    Py_DECREF(x);
}

// server_ended is called when the task of an exchange is done.
void server_ended(Exchange *x) {
    if (!x->task)
        return;
    Py_INCREF(x);
    PyObject *result = PyObject_CallMethodNoArgs(x->task, asgi.result);
    settle(x, result);
    Py_XDECREF(result);
    Py_DECREF(x);
}

// start calls the app and runs it until it first waits. It returns -1 with an exception
// that is to end the loop.
static int start(Server *s, Exchange *x) {
    PyObject *receive = receive_new(x), *send = send_new(x), *coroutine = NULL;
    if (receive && send) {
        PyObject *args[] = {NULL, x->scope, receive, send};
        coroutine = PyObject_Vectorcall(s->app, args + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    Py_XDECREF(receive);
    Py_XDECREF(send);
    Py_CLEAR(x->scope);
    if (coroutine && !PyCoro_CheckExact(coroutine)) // another awaitable
        Py_SETREF(coroutine, PyObject_CallOneArg(s->awaiting, coroutine));
    if (!coroutine) {
        settle(x, NULL);
        return 0;
    }
    size_t before = ready_len(&s->loop->ready);
    PyObject *args[] = {(PyObject *)s->loop, coroutine, x->name};
    x->task = PyObject_VectorcallMethod(names.create_task, args, 2, names.name_keyword);
    Py_CLEAR(x->name);
    Py_DECREF(coroutine);
    if (!x->task) {
        settle(x, NULL);
        return 0;
    }
    if (loop_run_first_step(s->loop, x->task, before) < 0)
        return -1;
    PyObject *done = PyObject_CallMethodNoArgs(x->task, asgi.done);
    if (done == Py_True) {
        server_ended(x);
    } else if (done) {
        PyObject *callback = PyObject_GetAttrString((PyObject *)x, "_done");
        PyObject *r = callback ? PyObject_CallMethodOneArg(x->task, asgi.add_done_callback, callback) : NULL;
        Py_XDECREF(callback);
        Py_XDECREF(r);
    }
    Py_XDECREF(done);
    if (PyErr_Occurred())
        PyErr_WriteUnraisable((PyObject *)x);
    return 0;
}

// server_runs lets an app that calls sys.exit, or raises KeyboardInterrupt, fail like one that raises any other
// exception: other requests go on. A Ctrl-C is a signal, which the server handles.
static bool server_runs(Loop *l, PyObject *task) {
    Exchange *x = ((Server *)l->server)->running;
    while (x && x->task != task)
        x = x->next;
    return x && task;
}

// The inbox.

// refuse answers a request without its app. Go may then give the slot to another one.
static void refuse(Server *s, const SpindleRecord *r, int status, bool to_head) {
    uint32_t slot = r->slot;
    if (r->flags & SPINDLE_WEBSOCKET) {
        server_out(s, SPINDLE_DENY, status, slot, 0, 0);
        server_out(s, SPINDLE_DENY_END, 0, slot, 0, 0);
        server_out(s, SPINDLE_FINISH, 0, slot, 0, sizeof(SpindleEnd));
        return;
    }
    answer_error(s, slot, status, to_head, r->flags & SPINDLE_HTTP2);
}

static int grow(Server *s, uint32_t slot) {
    if (slot >= s->slots) {
        uint32_t n = s->slots ? s->slots * 2 : 256;
        while (n <= slot)
            n *= 2;
        Exchange **by_slot = PyMem_Realloc(s->by_slot, n * sizeof *by_slot);
        if (!by_slot)
            return -1;
        memset(by_slot + s->slots, 0, (n - s->slots) * sizeof *by_slot);
        s->by_slot = by_slot;
        s->slots = n;
    }
    if (s->starting_len == s->starting_cap) {
        size_t n = s->starting_cap ? s->starting_cap * 2 : 256;
        Exchange **starting = PyMem_Realloc(s->starting, n * sizeof *starting);
        if (!starting)
            return -1;
        s->starting = starting;
        s->starting_cap = n;
    }
    return 0;
}

static void begin(Server *s, const SpindleRecord *r) {
    bool websocket = r->flags & SPINDLE_WEBSOCKET;
    s->total++;
    Exchange *x = grow(s, r->slot) == 0 ? exchange_new(s, r) : NULL;
    if (x && s->max_active > 0 && s->active >= s->max_active) {
        add(s, x);
        refuse(s, r, 503, x->to_head);
        x->released = true;
        x->phase = websocket ? WS_CLOSED : RESPONSE_DONE;
        settle(x, Py_None);
        return;
    }
    if (x && (x->scope = scope_new(s, r)))
        x->name = scope_name(r);
    if (!x || !x->scope || !x->name) {
        PyErr_WriteUnraisable((PyObject *)s);
        bool to_head = x && x->to_head;
        Py_XDECREF(x);
        refuse(s, r, 500, to_head);
        return;
    }
    add(s, x);
    s->starting[s->starting_len++] = (Exchange *)Py_NewRef(x);
}

static void add_message(Exchange *x, const SpindleRecord *r, const char *data, size_t len) {
    PyObject *message = PyDict_New(), *value = r->kind == SPINDLE_TEXT ? PyUnicode_DecodeUTF8(data, len, "replace")
                                                                       : PyBytes_FromStringAndSize(data, len);
    if (!x->inbox)
        x->inbox = PyList_New(0);
    if (!message || !value || !x->inbox || PyDict_SetItem(message, asgi.type, asgi.ws_receive) < 0 ||
        PyDict_SetItem(message, r->kind == SPINDLE_TEXT ? asgi.text : asgi.bytes, value) < 0 ||
        PyList_Append(x->inbox, message) < 0)
        PyErr_WriteUnraisable((PyObject *)x);
    Py_XDECREF(message);
    Py_XDECREF(value);
    exchange_wake(x);
}

static void take(Server *s, const SpindleRecord *r) {
    if (r->kind == SPINDLE_REQUEST) {
        begin(s, r);
        return;
    }
    if (r->kind == SPINDLE_DRAINED) {
        tell(s, "drained");
        return;
    }
    Exchange *x = r->slot < s->slots ? s->by_slot[r->slot] : NULL;
    if (!x)
        return; // the app has returned
    const char *data = (const char *)(r + 1);
    size_t len = r->size - sizeof *r;
    switch (r->kind) {
    case SPINDLE_BODY:
        exchange_body(x, data, len);
        break;
    case SPINDLE_END:
        x->complete = true;
        break;
    case SPINDLE_LOST:
        x->lost = true; // fall through
    case SPINDLE_GONE:
        x->gone = true;
        if (r->n > 0)
            exchange_refuse(x, (int)r->n);
        break;
    case SPINDLE_TEXT:
    case SPINDLE_BINARY:
        add_message(x, r, data, len);
        return;
    case SPINDLE_CLOSED:
        x->gone = x->lost = true;
        if (x->code == 0)
            x->code = (int)r->n;
        Py_XSETREF(x->reason, PyUnicode_DecodeUTF8(data, len, "replace"));
        PyErr_Clear();
        break;
    }
    exchange_wake(x);
}

// server_deliver reads the inbox and starts the apps of its requests. All records are read
// first, so that an app finds the part of its body that has come with the head.
static int server_deliver(Loop *l) {
    Server *s = (Server *)l->server;
    outbox_taken(s);
    if (!s->box || s->box->in.len == 0)
        return 0;
    Py_INCREF(s);
    // Python may run meanwhile, and have Go add records, or close the loop. So the batch is ours.
    SpindleBuffer batch = s->box->in;
    s->box->in = (SpindleBuffer){0};
    for (size_t at = 0; at < batch.len && s->box;) {
        const SpindleRecord *r = (const SpindleRecord *)(batch.data + at);
        at += (r->size + 7) & ~(size_t)7;
        take(s, r);
    }
    if (s->box && !s->box->in.data)
        s->box->in = (SpindleBuffer){batch.data, 0, batch.cap};
    else
        free(batch.data);
    int result = 0;
    size_t n = s->starting_len;
    for (size_t i = 0; i < n; i++) {
        if (result == 0 && s->box)
            result = start(s, s->starting[i]);
        Py_DECREF(s->starting[i]);
    }
    s->starting_len = 0;
    if (s->max_total > 0 && s->total >= s->max_total) {
        s->max_total = 0;
        tell(s, "max_requests");
    }
    Py_DECREF(s);
    return result;
}

static void server_loop_closed(Loop *l) {
    Server *s = (Server *)l->server;
    s->box = NULL;
    outbox_taken(s);
    Py_CLEAR(l->server);
}

static const Service service = {server_send_heads, server_deliver, server_loop_closed, server_runs};

// The type.

static PyTypeObject *server_loop_type(void) { return state()->types.loop; }

static int server_init(Server *s, PyObject *args, PyObject *kwargs) {
    static char *keywords[] = {"loop", "app", "config", "http_scope", "websocket_scope", "root_path", "state", "awaiting",
                               "report", "event", "proxy", "disconnected", "name", "fields", "dates", "max_active", "max_total", NULL};
    PyObject *loop, *app, *http, *websocket, *root, *state, *awaiting, *reports, *event, *proxy, *disconnected, *name, *fields;
    const char *config;
    Py_ssize_t size, max_active, max_total;
    int dates;
    if (s->loop) {
        PyErr_SetString(PyExc_RuntimeError, "spindle: the server was started already");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!Oy#O!O!SOOOOOOSSpnn", keywords, server_loop_type(), &loop, &app, &config, &size,
                                     &PyDict_Type, &http, &PyDict_Type, &websocket, &root, &state, &awaiting, &reports, &event, &proxy,
                                     &disconnected, &name, &fields, &dates, &max_active, &max_total) ||
        load() < 0)
        return -1;
    Loop *l = (Loop *)loop;
    if (l->server) {
        PyErr_SetString(PyExc_RuntimeError, "spindle: the loop has a server already");
        return -1;
    }
    if (l->id < 0 || l->poller) {
        PyErr_SetString(PyExc_RuntimeError, l->poller ? "spindle: the server was started in another thread than its loop's"
                                                      : "Event loop is closed");
        return -1;
    }
    char message[1024] = "";
    s->box = go.serve(l->id, config, (int)size, message, sizeof message);
    if (!s->box) {
        PyErr_SetString(PyExc_OSError, message);
        return -1;
    }
    s->thread = PyThread_get_thread_ident();
    s->loop = (Loop *)Py_NewRef(loop);
    s->app = Py_NewRef(app);
    s->http_scope = Py_NewRef(http);
    s->websocket_scope = Py_NewRef(websocket);
    s->root_path = Py_NewRef(root);
    s->state = state == Py_None ? NULL : Py_NewRef(state);
    s->awaiting = Py_NewRef(awaiting);
    s->report = Py_NewRef(reports);
    s->event = Py_NewRef(event);
    s->proxy = proxy == Py_None ? NULL : Py_NewRef(proxy);
    s->disconnected = Py_NewRef(disconnected);
    s->name = Py_NewRef(name);
    s->fields = Py_NewRef(fields);
    s->dates = dates;
    s->max_active = max_active;
    s->max_total = max_total;
    l->server = Py_NewRef(s);
    l->service = &service;
    return 0;
}

static int server_traverse(Server *s, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(s));
    Py_VISIT(s->loop);
    Py_VISIT(s->app);
    Py_VISIT(s->http_scope);
    Py_VISIT(s->websocket_scope);
    Py_VISIT(s->state);
    Py_VISIT(s->awaiting);
    Py_VISIT(s->report);
    Py_VISIT(s->event);
    Py_VISIT(s->proxy);
    Py_VISIT(s->disconnected);
    for (Exchange *x = s->running; x; x = x->next)
        Py_VISIT(x);
    return 0;
}

static int server_clear(Server *s) {
    s->box = NULL; // what outlives the server sends nothing
    Py_CLEAR(s->loop);
    Py_CLEAR(s->app);
    Py_CLEAR(s->http_scope);
    Py_CLEAR(s->websocket_scope);
    Py_CLEAR(s->root_path);
    Py_CLEAR(s->state);
    Py_CLEAR(s->awaiting);
    Py_CLEAR(s->report);
    Py_CLEAR(s->event);
    Py_CLEAR(s->proxy);
    Py_CLEAR(s->disconnected);
    Py_CLEAR(s->name);
    Py_CLEAR(s->fields);
    s->heads = NULL;
    while (s->running) {
        Exchange *x = s->running;
        x->head_waits = false;
        s->running = x->next;
        x->prev = x->next = NULL;
        Py_DECREF(x);
    }
    return 0;
}

static void server_dealloc(Server *s) {
    PyObject_GC_UnTrack(s);
    server_clear(s);
    outbox_taken(s);
    PyMem_Free(s->lent);
    PyMem_Free(s->by_slot);
    PyMem_Free(s->starting);
    PyTypeObject *type = Py_TYPE(s);
    type->tp_free((PyObject *)s);
    Py_DECREF(type);
}

// off_thread raises if the caller is not on the thread of the loop: Go may be using the mailbox.
static bool off_thread(Server *s) {
    if (s->thread == PyThread_get_thread_ident())
        return false;
    PyErr_SetString(PyExc_RuntimeError, "spindle: the server was used in another thread than its loop's");
    return true;
}

static PyObject *done(int result) {
    if (result < 0) {
        golib_raise(result);
        return NULL;
    }
    Py_RETURN_NONE;
}

// drain stops accepting and closes idle connections. The event "drained" follows when the
// last connection has ended.
static PyObject *server_meth_drain(Server *s, PyObject *Py_UNUSED(ignored)) {
    if (s->box) {
        if (off_thread(s))
            return NULL;
        s->draining = true;
        server_flush(s);
        return done(go.drain(s->loop->id));
    }
    Py_RETURN_NONE;
}

static PyObject *server_meth_abort(Server *s, PyObject *Py_UNUSED(ignored)) {
    if (s->box) {
        if (off_thread(s))
            return NULL;
        s->draining = true;
        server_flush(s);
        return done(go.abort(s->loop->id));
    }
    Py_RETURN_NONE;
}

// tasks returns the tasks of the apps that run.
static PyObject *server_meth_tasks(Server *s, PyObject *Py_UNUSED(ignored)) {
    PyObject *list = PyList_New(0);
    for (Exchange *x = s->running; list && x; x = x->next)
        if (x->task && PyList_Append(list, x->task) < 0)
            Py_CLEAR(list);
    return list;
}

static PyMethodDef server_methods[] = {
    {"drain", (PyCFunction)server_meth_drain, METH_NOARGS, NULL},
    {"abort", (PyCFunction)server_meth_abort, METH_NOARGS, NULL},
    {"tasks", (PyCFunction)server_meth_tasks, METH_NOARGS, NULL},
    {0},
};

static PyMemberDef server_members[] = {
    {"active", T_PYSSIZET, offsetof(Server, active), READONLY},
    {"total", T_PYSSIZET, offsetof(Server, total), READONLY},
    {0},
};

static PyType_Slot server_slots[] = {
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, server_init},
    {Py_tp_traverse, server_traverse},
    {Py_tp_clear, server_clear},
    {Py_tp_dealloc, server_dealloc},
    {Py_tp_methods, server_methods},
    {Py_tp_members, server_members},
    {0},
};

PyType_Spec server_spec = {
    .name = "spindle._core.Server",
    .basicsize = sizeof(Server),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = server_slots,
};
