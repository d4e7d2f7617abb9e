// The coroutine that StreamReader.read(n) returns: it waits once at most. It is one object in
// place of two coroutines with their frames.
#include "core.h"

typedef struct {
    PyObject_HEAD
    StreamReader *reader;
    PyObject *waiting; // the iterator of the future that it awaits, NULL if it does not
    Py_ssize_t most;
    enum { NEW, WAITING, DONE } state;
} Reading;

PyObject *stream_read(StreamReader *r, Py_ssize_t most) {
    State *s = state();
    Reading *c = (Reading *)s->spares.reading;
    if (c) {
        s->spares.reading = NULL;
        _Py_NewReference((PyObject *)c);
    } else if (state_has_ended() || !(c = PyObject_GC_New(Reading, s->types.reading))) {
        return NULL;
    }
    c->reader = (StreamReader *)Py_NewRef((PyObject *)r);
    c->waiting = NULL;
    c->most = most;
    c->state = NEW;
    PyObject_GC_Track(c);
    return (PyObject *)c;
}

static void end(Reading *c) {
    if (c->state == WAITING)
        Py_CLEAR(c->reader->waiter);
    c->state = DONE;
    Py_CLEAR(c->waiting);
    Py_CLEAR(c->reader);
}

// begin_wait makes the future that feed_data and feed_eof complete.
static int begin_wait(Reading *c) {
    StreamReader *r = c->reader;
    if (is_set(r->waiter)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "read() called while another coroutine is already waiting for incoming data");
        return -1;
    }
    if (r->paused && stream_resume(r) < 0)
        return -1;
    PyObject *future = PyObject_CallMethodNoArgs(r->loop ? r->loop : Py_None, names.create_future);
    if (!future)
        return -1;
    unaryfunc await = Py_TYPE(future)->tp_as_async ? Py_TYPE(future)->tp_as_async->am_await : NULL;
    if (!await)
        PyErr_SetString(PyExc_TypeError, "create_future() returned an object that cannot be awaited");
    else
        c->waiting = await(future);
    if (!c->waiting) {
        Py_DECREF(future);
        return -1;
    }
    Py_XSETREF(r->waiter, future);
    c->state = WAITING;
    return 0;
}

static PySendResult finish(Reading *c, PyObject **result) {
    StreamReader *r = (StreamReader *)Py_NewRef((PyObject *)c->reader);
    end(c);
    *result = stream_take(r, c->most);
    Py_DECREF(r);
    return *result ? PYGEN_RETURN : PYGEN_ERROR;
}

static PySendResult reading_send(Reading *c, PyObject *value, PyObject **result) {
    *result = NULL;
    if (c->state == DONE) {
        PyErr_SetString(PyExc_RuntimeError, "cannot reuse already awaited coroutine");
        return PYGEN_ERROR;
    }
    if (c->state == NEW) {
        StreamReader *r = c->reader;
        if (value != Py_None) {
            PyErr_SetString(PyExc_TypeError, "can't send non-None value to a just-started coroutine");
            return PYGEN_ERROR;
        }
        if (is_set(r->exception)) {
            PyErr_SetObject((PyObject *)Py_TYPE(r->exception), r->exception);
            end(c);
            return PYGEN_ERROR;
        }
        if (stream_buffered(r) > 0 || r->eof)
            return finish(c, result);
        if (begin_wait(c) < 0) {
            end(c);
            return PYGEN_ERROR;
        }
    }
    PyObject *waiting = Py_NewRef(c->waiting);
    PySendResult sent = PyIter_Send(waiting, value, result);
    Py_DECREF(waiting);
    if (sent == PYGEN_NEXT)
        return sent;
    if (sent == PYGEN_ERROR) {
        end(c);
        return sent;
    }
    Py_CLEAR(*result);
    return finish(c, result);
}

static PyObject *reading_meth_send(Reading *c, PyObject *value) {
    PyObject *result;
    PySendResult sent = reading_send(c, value, &result);
    return coroutine_result(sent, result);
}

static PyObject *reading_next(Reading *c) { return reading_meth_send(c, Py_None); }

static PyObject *reading_throw(Reading *c, PyObject *const *args, Py_ssize_t nargs) {
    if (c->state == DONE) {
        PyErr_SetString(PyExc_RuntimeError, "cannot reuse already awaited coroutine");
        return NULL;
    }
    PyObject *waiting = Py_XNewRef(c->waiting), *r = coroutine_throw(waiting, args, nargs);
    Py_XDECREF(waiting);
    if (!r)
        end(c);
    return r;
}

static PyObject *reading_close(Reading *c, PyObject *Py_UNUSED(ignored)) {
    PyObject *waiting = Py_XNewRef(c->waiting);
    end(c);
    if (!waiting)
        Py_RETURN_NONE;
    PyObject *r = PyObject_CallMethodNoArgs(waiting, names.close);
    Py_DECREF(waiting);
    return r;
}

static int reading_traverse(Reading *c, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(c));
    Py_VISIT((PyObject *)c->reader);
    Py_VISIT(c->waiting);
    return 0;
}

static int reading_clear(Reading *c) {
    end(c);
    return 0;
}

static void warn_unawaited(Reading *c) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (PyErr_WarnEx(PyExc_RuntimeWarning, "coroutine 'StreamReader.read' was never awaited", 1) < 0)
        PyErr_WriteUnraisable((PyObject *)Py_TYPE(c));
    PyErr_Restore(type, value, traceback);
}

static void reading_dealloc(Reading *c) {
    PyObject_GC_UnTrack(c);
    if (c->state == NEW)
        warn_unawaited(c);
    end(c);
    State *s = state();
    if (s->spares.reading || s->ended)
        spare_delete((PyObject *)c);
    else
        s->spares.reading = (PyObject *)c;
}

void stream_free_spare(State *s) {
    if (s->spares.reading)
        spare_delete(s->spares.reading);
    s->spares.reading = NULL;
}

static PyObject *reading_repr(Reading *c) {
    return PyUnicode_FromFormat("<coroutine object StreamReader.read at %p>", c);
}

// What asyncio and debuggers ask of a coroutine.
static PyObject *get_await(Reading *c, void *Py_UNUSED(closure)) { return Py_NewRef(c->waiting ? c->waiting : Py_None); }
static PyObject *get_none(Reading *Py_UNUSED(c), void *Py_UNUSED(closure)) { Py_RETURN_NONE; }
static PyObject *get_running(Reading *Py_UNUSED(c), void *Py_UNUSED(closure)) { Py_RETURN_FALSE; }
static PyObject *get_name(Reading *Py_UNUSED(c), void *name) { return PyUnicode_FromString(name); }

static PyGetSetDef reading_getset[] = {
    {"cr_await", (getter)get_await},
    {"cr_frame", (getter)get_none},
    {"cr_code", (getter)get_none},
    {"cr_running", (getter)get_running},
    {"__name__", (getter)get_name, .closure = "read"},
    {"__qualname__", (getter)get_name, .closure = "StreamReader.read"},
    {0},
};

static PyMethodDef reading_methods[] = {
    {"send", (PyCFunction)reading_meth_send, METH_O, "Continue the coroutine."},
    {"throw", (PyCFunction)(void (*)(void))reading_throw, METH_FASTCALL, "Raise an exception in the coroutine."},
    {"close", (PyCFunction)reading_close, METH_NOARGS, "End the coroutine."},
    {0},
};

static PyType_Slot reading_slots[] = {
    {Py_am_await, PyObject_SelfIter},
    {Py_am_send, reading_send},
    {Py_tp_iternext, reading_next},
    {Py_tp_repr, reading_repr},
    {Py_tp_traverse, reading_traverse},
    {Py_tp_clear, reading_clear},
    {Py_tp_dealloc, reading_dealloc},
    {Py_tp_methods, reading_methods},
    {Py_tp_getset, reading_getset},
    {0},
};

PyType_Spec reading_spec = {
    .name = "spindle._core.Reading",
    .basicsize = sizeof(Reading),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = reading_slots,
};
