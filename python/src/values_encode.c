// Encodes plain values as CBOR: None, bool, int of 64 bits, float, str, bytes, list, tuple, dict. The package cbor2, which
// encodes all others, takes longer for a small call than all the rest of the call.
//
// Values of other types, and of types that derive from these, are not plain; neither are lists that contain themselves. No code
// of Python runs meanwhile, so no container changes.
#include "values.h"

typedef struct {
    char *data;
    size_t used, size;
    char own[1024]; // data, while that is enough
} Out;

typedef enum { FAILED = -1, DONE, OTHER } Result; // OTHER: the value is not plain

static char *reserve(Out *o, size_t n) {
    if (o->size - o->used < n) {
        size_t size = o->size * 2 > o->used + n ? o->size * 2 : o->used + n;
        char *data = PyMem_Realloc(o->data == o->own ? NULL : o->data, size);
        if (!data) {
            PyErr_NoMemory();
            return NULL;
        }
        if (o->data == o->own)
            memcpy(data, o->own, o->used);
        o->data = data;
        o->size = size;
    }
    return o->data + o->used;
}

// put_head writes the beginning of a value: its major type and a number.
static Result put_head(Out *o, int major, uint64_t n) {
    char *to = reserve(o, 9);
    if (!to)
        return FAILED;
    int bytes = n < 24 ? 0 : n <= UINT8_MAX ? 1 : n <= UINT16_MAX ? 2 : n <= UINT32_MAX ? 4 : 8;
    static const char info[] = {0, 24, 25, 0, 26, 0, 0, 0, 27};
    to[0] = (char)(major << 5 | (bytes ? info[bytes] : (int)n));
    for (int i = 0; i < bytes; i++)
        to[1 + i] = (char)(n >> 8 * (bytes - 1 - i));
    o->used += 1 + bytes;
    return DONE;
}

static Result put_data(Out *o, int major, const char *data, Py_ssize_t n) {
    if (put_head(o, major, n) == FAILED || !reserve(o, n))
        return FAILED;
    memcpy(o->data + o->used, data, n);
    o->used += n;
    return DONE;
}

static Result put_int(Out *o, PyObject *v) {
    int overflow;
    long long n = PyLong_AsLongLongAndOverflow(v, &overflow);
    if (overflow < 0)
        return OTHER;
    if (overflow == 0)
        return n < 0 ? put_head(o, 1, ~(uint64_t)n) : put_head(o, 0, n);
    unsigned long long large = PyLong_AsUnsignedLongLong(v);
    if (large == (unsigned long long)-1 && PyErr_Occurred()) {
        PyErr_Clear();
        return OTHER;
    }
    return put_head(o, 0, large);
}

static Result put_text(Out *o, PyObject *v) {
    Py_ssize_t n;
    const char *text = PyUnicode_AsUTF8AndSize(v, &n);
    if (!text) {
        PyErr_Clear(); // a surrogate, or no memory, which the other encoder finds too
        return OTHER;
    }
    return put_data(o, 3, text, n);
}

static Result put_float(Out *o, double v) {
    char *to = reserve(o, 9);
    if (!to)
        return FAILED;
    to[0] = (char)(7 << 5 | 27);
    o->used += 9;
    return PyFloat_Pack8(v, to + 1, 0) < 0 ? FAILED : DONE;
}

static Result put(Out *o, PyObject *v, int depth);

static Result put_each(Out *o, PyObject **items, Py_ssize_t n, int depth) {
    Result r = put_head(o, 4, n);
    for (Py_ssize_t i = 0; i < n && r == DONE; i++)
        r = put(o, items[i], depth);
    return r;
}

static Result put_dict(Out *o, PyObject *v, int depth) {
    Result r = put_head(o, 5, PyDict_GET_SIZE(v));
    PyObject *key, *value;
    for (Py_ssize_t at = 0; r == DONE && PyDict_Next(v, &at, &key, &value);)
        if ((r = put(o, key, depth)) == DONE)
            r = put(o, value, depth);
    return r;
}

static Result put(Out *o, PyObject *v, int depth) {
    if (v == Py_None)
        return put_head(o, 7, 22);
    if (PyUnicode_CheckExact(v))
        return put_text(o, v);
    if (PyLong_CheckExact(v))
        return put_int(o, v);
    if (PyBytes_CheckExact(v))
        return put_data(o, 2, PyBytes_AS_STRING(v), PyBytes_GET_SIZE(v));
    if (PyFloat_CheckExact(v))
        return put_float(o, PyFloat_AS_DOUBLE(v));
    if (PyBool_Check(v))
        return put_head(o, 7, v == Py_True ? 21 : 20);
    if (depth == VALUES_NESTING)
        return OTHER;
    if (PyList_CheckExact(v) || PyTuple_CheckExact(v))
        return put_each(o, PySequence_Fast_ITEMS(v), PySequence_Fast_GET_SIZE(v), depth + 1);
    return PyDict_CheckExact(v) ? put_dict(o, v, depth + 1) : OTHER;
}

// values_encode is encode_plain(value). It returns NotImplemented if the value is not plain.
PyObject *values_encode(PyObject *Py_UNUSED(module), PyObject *value) {
    Out o;
    o.data = o.own;
    o.used = 0;
    o.size = sizeof o.own;
    Result r = put(&o, value, 0);
    PyObject *bytes = r == DONE ? PyBytes_FromStringAndSize(o.data, o.used) : r == OTHER ? Py_NewRef(Py_NotImplemented) : NULL;
    if (o.data != o.own)
        PyMem_Free(o.data);
    return bytes;
}
