// Calls of simulated sockets, for the class Socket of spindle/sim.
#include "world.h"
#include <errno.h>

// An address of Python is (family, ip, port) with the bytes of the ip, or (1, path, 0).
static int address_in(PyObject *o, SpindleAddress *a) {
    const char *at;
    Py_ssize_t len;
    if (!PyArg_ParseTuple(o, "iy#i", &a->family, &at, &len, &a->port))
        return -1;
    if (len > (Py_ssize_t)(a->family == 1 ? sizeof a->path : sizeof a->ip)) {
        PyErr_SetString(PyExc_OSError, "AF_UNIX path too long");
        return -1;
    }
    memcpy(a->family == 1 ? a->path : (char *)a->ip, at, len);
    a->path_len = (int)len;
    return 0;
}

static PyObject *address_out(SpindleAddress *a) {
    if (a->family == 1)
        return Py_BuildValue("iy#i", 1, a->path, (Py_ssize_t)a->path_len, 0);
    return Py_BuildValue("iy#i", a->family, a->ip, (Py_ssize_t)(a->family == 4 ? 4 : 16), a->port);
}

// result returns the number of a call, with an address or data where it has one.
static PyObject *result(SpindleCall *c, int n, PyObject *received) {
    switch (c->op) {
    case SPINDLE_CALL_ACCEPT:
        return Py_BuildValue("iN", n, address_out(&c->address));
    case SPINDLE_CALL_LOCAL:
    case SPINDLE_CALL_PEER:
        return address_out(&c->address);
    case SPINDLE_CALL_RECVFROM:
        return Py_BuildValue("y#N", PyBytes_AS_STRING(received), (Py_ssize_t)n, address_out(&c->address));
    case SPINDLE_CALL_RECV:
        return PyBytes_FromStringAndSize(PyBytes_AS_STRING(received), n);
    }
    return PyLong_FromLong(n);
}

// call(process, op, fd=0, a=0, b=0, address=None, data=None). An error of the system is returned as a
// negative number. To receive, a is the size.
PyObject *world_call(World *w, PyObject *const *args, Py_ssize_t nargs) {
    SpindleCall c = {0};
    if (w->id < 0)
        return PyLong_FromLong(-EBADF);
    int process = 0, *numbers[] = {&process, &c.op, &c.fd, &c.a, &c.b};
    for (Py_ssize_t i = 0; i < nargs && i < 5; i++)
        if ((*numbers[i] = (int)PyLong_AsLong(args[i])) == -1 && PyErr_Occurred())
            return NULL;
    if (nargs > 5 && args[5] != Py_None && address_in(args[5], &c.address) < 0)
        return NULL;
    Py_buffer view = {0};
    PyObject *received = NULL;
    if (nargs > 6 && args[6] != Py_None) {
        if (PyObject_GetBuffer(args[6], &view, PyBUF_SIMPLE) < 0)
            return NULL;
        c.data = view.buf;
        c.len = view.len;
    } else if (c.op == SPINDLE_CALL_RECV || c.op == SPINDLE_CALL_RECVFROM) {
        if (!(received = PyBytes_FromStringAndSize(NULL, c.a)))
            return NULL;
        c.data = PyBytes_AS_STRING(received);
        c.len = c.a;
    }
    int n = world_perform(w, process, &c);
    if (view.obj)
        PyBuffer_Release(&view);
    PyObject *r = NULL;
    if (n == SPINDLE_PANIC)
        golib_raise(n);
    else
        r = n < 0 ? PyLong_FromLong(n) : result(&c, n, received);
    Py_XDECREF(received);
    return r;
}

// lookup(process, name) returns the addresses of a name.
PyObject *world_lookup(World *w, PyObject *const *args, Py_ssize_t nargs) {
    Py_ssize_t len;
    const char *name = nargs == 2 ? PyUnicode_AsUTF8AndSize(args[1], &len) : NULL;
    int process = nargs == 2 ? (int)PyLong_AsLong(args[0]) : -1;
    if (PyErr_Occurred())
        return NULL;
    SpindleAddress found[8];
    int n = name && w->id >= 0 ? worldlib.lookup(w->id, process, name, (int)len, found, 8) : 0;
    if (n < 0) {
        golib_raise(n);
        return NULL;
    }
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *address = address_out(&found[i]);
        if (!address)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, address);
    }
    return list;
}
