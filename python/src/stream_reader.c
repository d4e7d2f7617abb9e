// The hot half of a StreamReader. The rest is asyncio's: streams.py makes a class that inherits
// from this type and from asyncio.StreamReader. The methods of that find their attributes here.
//
// Data that arrives while the buffer is empty stays the bytes object that it is, and a read that
// wants all of it gets that object. It is copied to the buffer when code asks for the buffer.
#include "core.h"
#include <structmember.h>

Py_ssize_t stream_buffered(StreamReader *r) {
    if (r->chunk)
        return PyBytes_GET_SIZE(r->chunk);
    return r->buffer ? PyByteArray_GET_SIZE(r->buffer) : 0;
}

static int append(StreamReader *r, PyObject *bytes) {
    Py_ssize_t had = PyByteArray_GET_SIZE(r->buffer), more = PyBytes_GET_SIZE(bytes);
    if (PyByteArray_Resize(r->buffer, had + more) < 0)
        return -1;
    memcpy(PyByteArray_AS_STRING(r->buffer) + had, PyBytes_AS_STRING(bytes), more);
    return 0;
}

// merge moves the chunk to the buffer.
static int merge(StreamReader *r) {
    if (!r->buffer && !(r->buffer = PyByteArray_FromStringAndSize(NULL, 0)))
        return -1;
    if (!r->chunk)
        return 0;
    if (append(r, r->chunk) < 0)
        return -1;
    Py_CLEAR(r->chunk);
    return 0;
}

// beyond reports whether more than times × limit bytes are buffered; -1 with an exception.
static int beyond(StreamReader *r, int times) {
    double limit = r->limit ? PyFloat_AsDouble(r->limit) : 0;
    if (limit == -1 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return -1;
        PyErr_Clear(); // an integer beyond all sizes
        return 0;
    }
    return (double)stream_buffered(r) > times * limit;
}

static int call(PyObject *object, PyObject *method) {
    PyObject *r = PyObject_CallMethodNoArgs(object, method);
    Py_XDECREF(r);
    return r ? 0 : -1;
}

// wake ends the wait of a read.
static int wake(StreamReader *r) {
    PyObject *waiter = r->waiter;
    if (!is_set(waiter))
        return 0;
    r->waiter = NULL;
    PyObject *done = PyObject_CallMethodOneArg(waiter, names.set_result, Py_None);
    if (!done) { // it may be cancelled
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyObject *cancelled = PyObject_CallMethodNoArgs(waiter, names.cancelled);
        if (cancelled == Py_True) {
            Py_XDECREF(type);
            Py_XDECREF(value);
            Py_XDECREF(traceback);
            done = Py_NewRef(Py_None);
        } else {
            PyErr_Restore(type, value, traceback);
        }
        Py_XDECREF(cancelled);
    }
    Py_DECREF(waiter);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

int stream_resume(StreamReader *r) {
    r->paused = false;
    PyObject *transport = Py_NewRef(is_set(r->transport) ? r->transport : Py_None);
    int result = call(transport, names.resume_reading);
    Py_DECREF(transport);
    return result;
}

static int maybe_pause(StreamReader *r) {
    if (!is_set(r->transport) || r->paused)
        return 0;
    int much = beyond(r, 2);
    if (much <= 0)
        return much;
    PyObject *transport = Py_NewRef(r->transport);
    int result = call(transport, names.pause_reading);
    Py_DECREF(transport);
    if (result == 0) {
        r->paused = true;
    } else if (PyErr_ExceptionMatches(PyExc_NotImplementedError)) {
        PyErr_Clear(); // it cannot be paused; do not try again
        Py_CLEAR(r->transport);
        result = 0;
    }
    return result;
}

int stream_feed(StreamReader *r, PyObject *data) {
    if (r->eof) {
        PyErr_SetString(PyExc_AssertionError, "feed_data after feed_eof");
        return -1;
    }
    int some = PyBytes_CheckExact(data) ? PyBytes_GET_SIZE(data) > 0 : PyObject_IsTrue(data);
    if (some <= 0)
        return some;
    if (PyBytes_CheckExact(data) && stream_buffered(r) == 0) {
        r->chunk = Py_NewRef(data);
    } else {
        if (merge(r) < 0)
            return -1;
        PyObject *done = PyObject_CallMethodOneArg(r->buffer, names.extend, data);
        if (!done)
            return -1;
        Py_DECREF(done);
    }
    return wake(r) < 0 ? -1 : maybe_pause(r);
}

// stream_take removes up to n bytes from the buffer and returns them.
PyObject *stream_take(StreamReader *r, Py_ssize_t n) {
    PyObject *data;
    if (r->chunk && PyBytes_GET_SIZE(r->chunk) <= n) {
        data = r->chunk;
        r->chunk = NULL;
    } else {
        if (merge(r) < 0)
            return NULL;
        if (n > PyByteArray_GET_SIZE(r->buffer))
            n = PyByteArray_GET_SIZE(r->buffer);
        data = PyBytes_FromStringAndSize(PyByteArray_AS_STRING(r->buffer), n);
        if (!data || (n > 0 && PySequence_DelSlice(r->buffer, 0, n) < 0)) {
            Py_XDECREF(data);
            return NULL;
        }
    }
    if (r->paused) {
        int much = beyond(r, 1);
        if (much < 0 || (!much && stream_resume(r) < 0)) {
            Py_DECREF(data);
            return NULL;
        }
    }
    return data;
}

// Methods of the reader.

// read returns the coroutine of stream_read.c for a number of bytes above zero, and asyncio's coroutine otherwise.
static PyObject *reader_read(StreamReader *r, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    if (nargs == 1 && !kwnames && PyLong_CheckExact(args[0])) {
        Py_ssize_t most = PyLong_AsSsize_t(args[0]);
        if (most > 0)
            return stream_read(r, most);
        if (most == -1)
            PyErr_Clear();
    }
    PyObject *all[4] = {(PyObject *)r};
    Py_ssize_t n = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    if (n > 3) {
        PyErr_SetString(PyExc_TypeError, "read() takes one argument");
        return NULL;
    }
    memcpy(all + 1, args, n * sizeof *all);
    return PyObject_Vectorcall(names.base_read, all, nargs + 1, kwnames);
}

static PyObject *reader_feed_data(StreamReader *r, PyObject *data) {
    if (stream_feed(r, data) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *reader_feed_eof(StreamReader *r, PyObject *Py_UNUSED(ignored)) {
    r->eof = true;
    if (wake(r) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *reader_at_eof(StreamReader *r, PyObject *Py_UNUSED(ignored)) {
    return PyBool_FromLong(r->eof && stream_buffered(r) == 0);
}

static PyObject *reader_exception(StreamReader *r, PyObject *Py_UNUSED(ignored)) {
    return Py_NewRef(r->exception ? r->exception : Py_None);
}

static PyObject *reader_get_buffer(StreamReader *r, void *Py_UNUSED(closure)) {
    return merge(r) < 0 ? NULL : Py_NewRef(r->buffer);
}

static int reader_set_buffer(StreamReader *r, PyObject *buffer, void *Py_UNUSED(closure)) {
    if (!buffer || !PyByteArray_Check(buffer)) {
        PyErr_SetString(PyExc_TypeError, "the buffer of a StreamReader is a bytearray");
        return -1;
    }
    Py_CLEAR(r->chunk);
    Py_INCREF(buffer);
    Py_XSETREF(r->buffer, buffer);
    return 0;
}

static int reader_traverse(StreamReader *r, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(r));
    Py_VISIT(r->loop);
    Py_VISIT(r->limit);
    Py_VISIT(r->waiter);
    Py_VISIT(r->exception);
    Py_VISIT(r->transport);
    Py_VISIT(r->buffer);
    return 0;
}

static int reader_clear(StreamReader *r) {
    Py_CLEAR(r->loop);
    Py_CLEAR(r->limit);
    Py_CLEAR(r->waiter);
    Py_CLEAR(r->exception);
    Py_CLEAR(r->transport);
    Py_CLEAR(r->chunk);
    Py_CLEAR(r->buffer);
    return 0;
}

static void reader_dealloc(StreamReader *r) {
    PyObject_GC_UnTrack(r);
    Py_TRASHCAN_BEGIN(r, reader_dealloc)
    reader_clear(r);
    PyTypeObject *type = Py_TYPE(r);
    type->tp_free((PyObject *)r);
    Py_DECREF(type);
    Py_TRASHCAN_END
}

static PyMethodDef reader_methods[] = {
    {"read", (PyCFunction)(void (*)(void))reader_read, METH_FASTCALL | METH_KEYWORDS,
     "Read up to n bytes, or until the end of the stream if n is negative."},
    {"feed_data", (PyCFunction)reader_feed_data, METH_O, NULL},
    {"feed_eof", (PyCFunction)reader_feed_eof, METH_NOARGS, NULL},
    {"at_eof", (PyCFunction)reader_at_eof, METH_NOARGS,
     "Report whether the stream has ended and all data was read."},
    {"exception", (PyCFunction)reader_exception, METH_NOARGS, "Return the exception of the stream."},
    {0},
};

static PyMemberDef reader_members[] = {
    {"_loop", T_OBJECT, offsetof(StreamReader, loop)},
    {"_limit", T_OBJECT, offsetof(StreamReader, limit)},
    {"_waiter", T_OBJECT, offsetof(StreamReader, waiter)},
    {"_exception", T_OBJECT, offsetof(StreamReader, exception)},
    {"_transport", T_OBJECT, offsetof(StreamReader, transport)},
    {"_eof", T_BOOL, offsetof(StreamReader, eof)},
    {"_paused", T_BOOL, offsetof(StreamReader, paused)},
    {0},
};

static PyGetSetDef reader_getset[] = {
    {"_buffer", (getter)reader_get_buffer, (setter)reader_set_buffer},
    {0},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_traverse, reader_traverse},
    {Py_tp_clear, reader_clear},
    {Py_tp_dealloc, reader_dealloc},
    {Py_tp_methods, reader_methods},
    {Py_tp_members, reader_members},
    {Py_tp_getset, reader_getset},
    {0},
};

PyType_Spec stream_reader_spec = {
    .name = "spindle._core.StreamReader",
    .basicsize = sizeof(StreamReader),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = reader_slots,
};

// adopt is adopt(protocol, type). A server's StreamReaderProtocol that is new has a
// StreamReader that no other code has seen. adopt replaces that one by a reader of type, which
// inherits from it. It leaves everything else as it is.
PyObject *stream_adopt(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2)
        return PyErr_Format(PyExc_TypeError, "adopt() takes two arguments");
    PyObject *protocol = args[0];
    PyObject *old = PyObject_GetAttr(protocol, names.strong_reader);
    PyObject *ref = old ? PyObject_GetAttr(protocol, names.reader_ref) : NULL;
    PyObject *loop = NULL, *limit = NULL, *reader = NULL, *new_ref = NULL;
    bool done = false;
    // Two references: the protocol's and ours.
    if (ref && (PyObject *)Py_TYPE(old) == names.stream_reader && Py_REFCNT(old) == 2 &&
        PyWeakref_CheckRefExact(ref) && Py_REFCNT(ref) == 2) {
        loop = PyObject_GetAttrString(old, "_loop");
        limit = loop ? PyObject_GetAttrString(old, "_limit") : NULL;
        if (limit)
            reader = PyObject_CallFunctionObjArgs(args[1], limit, loop, NULL);
        if (reader)
            new_ref = PyWeakref_NewRef(reader, NULL);
        done = new_ref && PyObject_SetAttr(protocol, names.reader_ref, new_ref) == 0 &&
               PyObject_SetAttr(protocol, names.strong_reader, reader) == 0;
    }
    Py_XDECREF(old);
    Py_XDECREF(ref);
    Py_XDECREF(loop);
    Py_XDECREF(limit);
    Py_XDECREF(reader);
    Py_XDECREF(new_ref);
    if (!done && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return NULL;
        PyErr_Clear(); // the protocol of a client
    }
    return PyBool_FromLong(done);
}
