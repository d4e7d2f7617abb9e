// An Exchange is a request and its response, or a WebSocket, from the request until the
// app has returned.
#include "asgi.h"

#define SPARE 256

Exchange *exchange_new(Server *s, const SpindleRecord *r) {
    const SpindleHead *head = (const SpindleHead *)(r + 1);
    Exchange *x;
    char *buffer = NULL;
    size_t cap = 0;
    struct ServerState *of = server_state();
    if (of->spare_exchange_count > 0) {
        x = of->spare_exchanges[--of->spare_exchange_count];
        buffer = x->head;
        cap = x->head_cap;
        _Py_NewReference((PyObject *)x);
    } else if (state_has_ended() || !(x = PyObject_GC_New(Exchange, of->exchange))) {
        return NULL;
    }
    memset((char *)x + sizeof(PyObject), 0, sizeof *x - sizeof(PyObject));
    x->head = buffer;
    x->head_cap = cap;
    x->server = (Server *)Py_NewRef(s);
    x->slot = r->slot;
    x->flags = r->flags;
    x->phase = r->flags & SPINDLE_WEBSOCKET ? WS_CONNECTING : RESPONSE_NONE;
    x->complete = r->flags & SPINDLE_COMPLETE;
    x->length = head->length;
    x->declared = -1;
    x->to_head = head->method == 4 && memcmp((const char *)(head + 1) + r->n * sizeof(SpindleField), "HEAD", 4) == 0;
    PyObject_GC_Track(x);
    return x;
}

static int exchange_traverse(Exchange *x, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(x));
    Py_VISIT(x->server);
    Py_VISIT(x->scope);
    Py_VISIT(x->task);
    Py_VISIT(x->waiters);
    Py_VISIT(x->inbox);
    return 0;
}

static int exchange_clear(Exchange *x) {
    Py_CLEAR(x->server);
    Py_CLEAR(x->scope);
    Py_CLEAR(x->name);
    Py_CLEAR(x->task);
    Py_CLEAR(x->waiters);
    Py_CLEAR(x->body);
    Py_CLEAR(x->inbox);
    Py_CLEAR(x->reason);
    return 0;
}

static void exchange_dealloc(Exchange *x) {
    PyObject_GC_UnTrack(x);
    exchange_clear(x);
    State *s = state();
    if (!s->ended && s->server->spare_exchange_count < SPARE && x->head_cap <= 4096) {
        s->server->spare_exchanges[s->server->spare_exchange_count++] = x;
    } else {
        PyMem_Free(x->head);
        spare_delete((PyObject *)x);
    }
}

void exchange_free_spare(struct ServerState *s) {
    while (s->spare_exchange_count > 0) {
        Exchange *x = s->spare_exchanges[--s->spare_exchange_count];
        PyMem_Free(x->head);
        spare_delete((PyObject *)x);
    }
}

// exchange_body adds to the body that receive returns.
void exchange_body(Exchange *x, const char *data, size_t len) {
    x->received += (int64_t)len;
    PyObject *piece = PyBytes_FromStringAndSize(data, len);
    if (!x->body || !piece) {
        Py_XSETREF(x->body, piece);
    } else {
        PyBytes_ConcatAndDel(&x->body, piece);
    }
    if (!x->body) { // out of memory: the rest is of no use
        PyErr_Clear();
        x->gone = x->delivered = true;
    }
}

// exchange_wake makes everything that waits for the exchange try again.
void exchange_wake(Exchange *x) {
    PyObject *waiters = x->waiters;
    x->waiters = NULL;
    for (Py_ssize_t i = 0; waiters && i < PyList_GET_SIZE(waiters); i++) {
        PyObject *future = PyList_GET_ITEM(waiters, i);
        PyObject *done = PyObject_CallMethodNoArgs(future, asgi.done);
        if (done == Py_False) {
            PyObject *r = PyObject_CallMethodOneArg(future, asgi.set_result, Py_None);
            Py_XDECREF(r);
        }
        Py_XDECREF(done);
        if (PyErr_Occurred())
            PyErr_WriteUnraisable(future);
    }
    Py_XDECREF(waiters);
}

// exchange_refuse answers a request with a body that is too long, too slow or malformed, unless the app has begun
// to. To the app the client is lost.
void exchange_refuse(Exchange *x, int status) {
    if (x->released || !x->server->box || (x->phase != RESPONSE_NONE && x->phase != RESPONSE_STARTED))
        return;
    server_release(x);
    answer_error(x->server, x->slot, status, x->to_head, on_stream(x));
    x->lost = true;
}

// exchange_fail ends a response that the app has not completed: with a 500 if nothing was
// sent, otherwise by closing the connection. An app that returns after a disconnect has
// nothing to answer.
void exchange_fail(Exchange *x, bool failed) {
    Server *s = x->server;
    if (x->released || !s->box)
        return;
    server_release(x);
    if ((x->phase == RESPONSE_NONE || x->phase == RESPONSE_STARTED) && !(x->told && !failed)) {
        answer_error(s, x->slot, 500, x->to_head, on_stream(x));
        x->status = 500;
    } else {
        server_out(s, SPINDLE_ABORT, 0, x->slot, 0, 0);
    }
    x->phase = RESPONSE_DONE;
}

// Called when the task of an app that has waited is done.
static PyObject *exchange_meth_done(Exchange *x, PyObject *Py_UNUSED(task)) {
    server_ended(x);
    Py_RETURN_NONE;
}

static PyObject *exchange_get_scope(Exchange *x, void *Py_UNUSED(c)) { return Py_NewRef(x->scope ? x->scope : Py_None); }
static PyObject *exchange_get_task(Exchange *x, void *Py_UNUSED(c)) { return Py_NewRef(x->task ? x->task : Py_None); }

static PyMethodDef exchange_methods[] = {
    {"_done", (PyCFunction)exchange_meth_done, METH_O, NULL},
    {0},
};

static PyGetSetDef exchange_getset[] = {
    {"scope", (getter)exchange_get_scope, NULL, NULL, NULL},
    {"task", (getter)exchange_get_task, NULL, NULL, NULL},
    {0},
};

static PyType_Slot exchange_slots[] = {
    {Py_tp_methods, exchange_methods},
    {Py_tp_getset, exchange_getset},
    {Py_tp_traverse, exchange_traverse},
    {Py_tp_clear, exchange_clear},
    {Py_tp_dealloc, exchange_dealloc},
    {0},
};

PyType_Spec exchange_spec = {
    .name = "spindle._core.Exchange",
    .basicsize = sizeof(Exchange),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = exchange_slots,
};
