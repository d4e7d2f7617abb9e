// What receive() and send() return: an object that does its work when it is awaited, as a
// coroutine would. It has a coroutine's methods, so that create_task accepts it.
//
// Most operations are done at once and return without suspending the app. Others wait for
// a future, which the exchange resolves whenever something has happened; then they try
// again. So a wait that is cancelled loses nothing.
#include "asgi.h"

#define LONGEST_RUN 10000000 // nanoseconds without a poll; with 2 ms, large responses to many clients were sent in smaller parts
#define LONGEST_RUN_OF_ONE 1000000 // of them for one app, which others wait for

typedef struct {
    PyObject_HEAD
    Exchange *x;
    PyObject *message; // NULL to receive
    PyObject *wait;    // the iterator of the future that it waits for; NULL if none
    bool begun;
    bool sent;         // the message was taken; only the client has to catch up
    bool over;
} Operation;

#define SPARE 64

PyObject *operation_new(Exchange *x, PyObject *message) {
    Operation *o;
    struct ServerState *of = server_state();
    if (of->spare_operation_count > 0) {
        o = (Operation *)of->spare_operations[--of->spare_operation_count];
        _Py_NewReference((PyObject *)o);
    } else if (state_has_ended() || !(o = PyObject_GC_New(Operation, of->operation))) {
        return NULL;
    }
    o->x = (Exchange *)Py_NewRef(x);
    o->message = Py_XNewRef(message);
    o->wait = NULL;
    o->begun = o->sent = o->over = false;
    return (PyObject *)o; // tracked when it waits
}

static int operation_traverse(Operation *o, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(o->x);
    Py_VISIT(o->message);
    Py_VISIT(o->wait);
    return 0;
}

static int operation_clear(Operation *o) {
    Py_CLEAR(o->x);
    Py_CLEAR(o->message);
    Py_CLEAR(o->wait);
    return 0;
}

static void operation_destroy(Operation *o) {
    operation_clear(o);
    State *s = state();
    if (!s->ended && s->server->spare_operation_count < SPARE)
        s->server->spare_operations[s->server->spare_operation_count++] = (PyObject *)o;
    else
        spare_delete((PyObject *)o);
}

static void operation_dealloc(Operation *o) {
    PyObject_GC_UnTrack(o);
    if (!o->message || PyDict_CheckExact(o->message)) { // a dict limits the depth itself
        operation_destroy(o);
        return;
    }
    Py_TRASHCAN_BEGIN(o, operation_dealloc) // the message may be another operation
    operation_destroy(o);
    Py_TRASHCAN_END
}

void operation_free_spare(struct ServerState *s) {
    while (s->spare_operation_count > 0)
        spare_delete(s->spare_operations[--s->spare_operation_count]);
    while (s->spare_callable_count > 0)
        spare_delete(s->spare_callables[--s->spare_callable_count]);
}

// forget_done removes the futures of cancelled waits, so that they do not pile up.
static int forget_done(Exchange *x) {
    PyObject *pending = PyList_New(0);
    for (Py_ssize_t i = 0; pending && i < PyList_GET_SIZE(x->waiters); i++) {
        PyObject *future = PyList_GET_ITEM(x->waiters, i);
        PyObject *done = PyObject_CallMethodNoArgs(future, asgi.done);
        if (!done || (done == Py_False && PyList_Append(pending, future) < 0))
            Py_CLEAR(pending);
        Py_XDECREF(done);
    }
    if (!pending)
        return -1;
    Py_SETREF(x->waiters, pending);
    return 0;
}

// begin_wait makes the operation wait for the next event of the exchange.
static int begin_wait(Operation *o) {
    PyObject *args[] = {(PyObject *)o->x->server->loop};
    PyObject *future = PyObject_Vectorcall(names.future_type, args, 0, names.loop_keyword);
    if (!future)
        return -1;
    if (!o->x->waiters)
        o->x->waiters = PyList_New(0);
    int r = o->x->waiters ? 0 : -1;
    if (r == 0 && PyList_GET_SIZE(o->x->waiters) >= 8)
        r = forget_done(o->x);
    if (r == 0)
        r = PyList_Append(o->x->waiters, future);
    if (r == 0) {
        PyObject *iterator = Py_TYPE(future)->tp_as_async->am_await(future);
        Py_XSETREF(o->wait, iterator);
        r = iterator ? 0 : -1;
    }
    Py_DECREF(future);
    if (!PyObject_GC_IsTracked((PyObject *)o))
        PyObject_GC_Track(o);
    return r;
}

// attempt does the work. It returns 1 with a result, 0 to wait, -1 with an exception.
static int attempt(Operation *o, PyObject **result) {
    Exchange *x = o->x;
    if (!o->message) {
        *result = is_websocket(x) ? websocket_receive(x) : http_receive(x);
        return *result ? 1 : PyErr_Occurred() ? -1 : 0;
    }
    if (!o->sent) {
        int r = is_websocket(x) ? websocket_send(x, o->message) : http_send(x, o->message);
        if (r < 0)
            return -1;
        o->sent = true;
        if (r == 0) {
            *result = Py_NewRef(Py_None);
            return 1;
        }
    }
    if (x->lost || !is_held(x)) {
        *result = Py_NewRef(Py_None);
        return 1;
    }
    return 0;
}

// keeps_loop reports whether the loop has not polled for long, because apps do not wait, or one app does not. An
// operation that begins then lets the loop turn first. Otherwise an app that awaits only send
// would never learn that the client is gone, and nothing else would run.
static bool keeps_loop(Server *s, const Exchange *x) {
    int64_t now = clock_ns(), polled = s->loop->last_poll;
    if (s->busy != x || s->busy_since < polled) {
        s->busy = x;
        s->busy_since = now;
    }
    return now - polled > LONGEST_RUN || now - s->busy_since > LONGEST_RUN_OF_ONE;
}

static PySendResult operation_send(Operation *o, PyObject *value, PyObject **result) {
    *result = NULL;
    if (o->x->server->thread != PyThread_get_thread_ident()) { // Go may be using the mailbox, without the GIL
        PyErr_SetString(PyExc_RuntimeError, "spindle: receive() and send() were awaited in another thread than the loop's; "
                                            "use asyncio.run_coroutine_threadsafe");
        return PYGEN_ERROR;
    }
    if (o->over) {
        PyErr_SetString(PyExc_RuntimeError, "spindle: cannot await receive() or send() twice");
        return PYGEN_ERROR;
    }
    if (!o->begun) {
        o->begun = true;
        Server *s = o->x->server;
        if (++s->operations % 8 == 0 && s->box && keeps_loop(s, o->x)) { // the clock costs something
            s->loop->poll_due = true;
            *result = Py_NewRef(Py_None); // as asyncio.sleep(0) does
            return PYGEN_NEXT;
        }
    }
    for (;;) {
        if (o->wait) {
            PySendResult r = PyIter_Send(o->wait, value, result);
            if (r != PYGEN_RETURN) {
                o->over = r == PYGEN_ERROR;
                return r;
            }
            Py_CLEAR(*result);
            Py_CLEAR(o->wait);
            value = Py_None;
        }
        int r = attempt(o, result);
        if (r == 0)
            r = begin_wait(o);
        if (r != 0) {
            o->over = true;
            return r > 0 ? PYGEN_RETURN : PYGEN_ERROR;
        }
    }
}

static PyObject *operation_next(Operation *o) {
    PyObject *result;
    PySendResult r = operation_send(o, Py_None, &result);
    return coroutine_result(r, result);
}

static PyObject *operation_meth_send(Operation *o, PyObject *value) {
    PyObject *result;
    PySendResult r = operation_send(o, value, &result);
    return coroutine_result(r, result);
}

static PyObject *operation_meth_throw(Operation *o, PyObject *const *args, Py_ssize_t nargs) {
    PyObject *wait = Py_XNewRef(o->wait), *r = coroutine_throw(wait, args, nargs);
    Py_XDECREF(wait);
    if (!r)
        o->over = true;
    return r;
}

static PyObject *operation_meth_close(Operation *o, PyObject *Py_UNUSED(ignored)) {
    o->over = true;
    Py_CLEAR(o->wait);
    Py_RETURN_NONE;
}

static PyMethodDef operation_methods[] = {
    {"send", (PyCFunction)operation_meth_send, METH_O, NULL},
    {"throw", (PyCFunction)(void (*)(void))operation_meth_throw, METH_FASTCALL, NULL},
    {"close", (PyCFunction)operation_meth_close, METH_NOARGS, NULL},
    {0},
};

static PyType_Slot operation_slots[] = {
    {Py_am_await, PyObject_SelfIter},
    {Py_am_send, operation_send},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, operation_next},
    {Py_tp_methods, operation_methods},
    {Py_tp_traverse, operation_traverse},
    {Py_tp_clear, operation_clear},
    {Py_tp_dealloc, operation_dealloc},
    {0},
};

PyType_Spec operation_spec = {
    .name = "spindle._core.Operation",
    .basicsize = sizeof(Operation),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = operation_slots,
};

// receive and send.

typedef struct {
    PyObject_HEAD
    Exchange *x;
    vectorcallfunc call;
} Callable;

static PyObject *call_receive(Callable *c, PyObject *const *Py_UNUSED(args), size_t nargsf, PyObject *kwnames) {
    if (PyVectorcall_NARGS(nargsf) != 0 || kwnames) {
        PyErr_SetString(PyExc_TypeError, "receive() takes no arguments");
        return NULL;
    }
    return operation_new(c->x, NULL);
}

static PyObject *call_send(Callable *c, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (n + named != 1 || (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "message") != 0)) {
        PyErr_SetString(PyExc_TypeError, "send() takes one argument, a message");
        return NULL;
    }
    return operation_new(c->x, args[0]);
}

static PyObject *callable_new(PyTypeObject *type, Exchange *x, vectorcallfunc call) {
    Callable *c;
    struct ServerState *of = server_state();
    if (of->spare_callable_count > 0) {
        c = (Callable *)of->spare_callables[--of->spare_callable_count];
        PyTypeObject *old = Py_TYPE(c);
        if (old != type) {
            Py_INCREF(type);
            Py_SET_TYPE(c, type);
            Py_DECREF(old);
        }
        _Py_NewReference((PyObject *)c);
    } else if (state_has_ended() || !(c = PyObject_GC_New(Callable, type))) {
        return NULL;
    }
    c->x = (Exchange *)Py_NewRef(x);
    c->call = call;
    PyObject_GC_Track(c);
    return (PyObject *)c;
}

PyObject *receive_new(Exchange *x) { return callable_new(server_state()->receive, x, (vectorcallfunc)call_receive); }
PyObject *send_new(Exchange *x) { return callable_new(server_state()->send, x, (vectorcallfunc)call_send); }

static int callable_traverse(Callable *c, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(c));
    Py_VISIT(c->x);
    return 0;
}

static int callable_clear(Callable *c) {
    Py_CLEAR(c->x);
    return 0;
}

static void callable_dealloc(Callable *c) {
    PyObject_GC_UnTrack(c);
    Py_CLEAR(c->x);
    State *s = state();
    if (!s->ended && s->server->spare_callable_count < SPARE)
        s->server->spare_callables[s->server->spare_callable_count++] = (PyObject *)c;
    else
        spare_delete((PyObject *)c);
}

#include <structmember.h>
static PyMemberDef callable_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Callable, call), READONLY},
    {0},
};

static PyType_Slot callable_slots[] = {
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_traverse, callable_traverse},
    {Py_tp_clear, callable_clear},
    {Py_tp_dealloc, callable_dealloc},
    {Py_tp_members, callable_members},
    {0},
};

#define CALLABLE(type_name)                                                                                     \
    {                                                                                                           \
        .name = type_name, .basicsize = sizeof(Callable), .slots = callable_slots,                              \
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |                         \
                 Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,                                  \
    }

PyType_Spec receive_spec = CALLABLE("spindle._core.Receive");
PyType_Spec send_spec = CALLABLE("spindle._core.Send");
