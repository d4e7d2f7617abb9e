// Decodes CBOR that is a plain value; see values_encode.c. It leaves tags, numbers of more than 64 bits, lengths that are not
// known before, and whatever is malformed to the package cbor2.
#include "values.h"

typedef struct {
    const unsigned char *at, *end;
    uint64_t owed; // values that the lists and dicts around have yet to get, of a byte at least
} In;

// get_head reads the beginning of a value. It returns false if there is none that is plain.
static bool get_head(In *in, int *major, int *info, uint64_t *n) {
    if (in->at == in->end)
        return false;
    *major = *in->at >> 5;
    *info = *in->at++ & 31;
    *n = *info;
    if (*info < 24)
        return true;
    if (*info > 27 || in->end - in->at < 1 << (*info - 24))
        return false;
    *n = 0;
    for (int left = 1 << (*info - 24); left > 0; left--)
        *n = *n << 8 | *in->at++;
    return true;
}

// Each of these returns NULL without an exception for what is not plain.

static PyObject *get(In *in, int depth);

static PyObject *get_int(int major, uint64_t n) {
    if (major == 0)
        return PyLong_FromUnsignedLongLong(n);
    return n > INT64_MAX ? NULL : PyLong_FromLongLong(-1 - (int64_t)n);
}

static PyObject *get_text(In *in, Py_ssize_t n) {
    PyObject *text = PyUnicode_DecodeUTF8((const char *)in->at, n, NULL);
    if (!text && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        PyErr_Clear();
    in->at += n;
    return text;
}

static PyObject *get_simple(In *in, int info) {
    switch (info) {
    case 20:
        Py_RETURN_FALSE;
    case 21:
        Py_RETURN_TRUE;
    case 22:
        Py_RETURN_NONE;
    case 25:
        return PyFloat_FromDouble(PyFloat_Unpack2((const char *)in->at - 2, 0));
    case 26:
        return PyFloat_FromDouble(PyFloat_Unpack4((const char *)in->at - 4, 0));
    case 27:
        return PyFloat_FromDouble(PyFloat_Unpack8((const char *)in->at - 8, 0));
    default:
        return NULL;
    }
}

static PyObject *get_list(In *in, Py_ssize_t n, int depth) {
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        in->owed--;
        PyObject *item = get(in, depth);
        if (item)
            PyList_SET_ITEM(list, i, item);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *get_dict(In *in, Py_ssize_t n, int depth) {
    PyObject *dict = PyDict_New();
    for (Py_ssize_t i = 0; dict && i < n; i++) {
        in->owed -= 2;
        int kind = in->at < in->end ? *in->at >> 5 : 4;
        PyObject *key = kind < 4 || kind == 7 ? get(in, depth) : NULL; // cbor2 makes tuples of keys that are lists
        PyObject *value = key ? get(in, depth) : NULL;
        if (!value || PyDict_SetItem(dict, key, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return dict;
}

// owe reports whether n more values can follow: a list gets its memory at once, and inner lists cannot claim the same bytes.
static bool owe(In *in, uint64_t n) {
    uint64_t left = in->end - in->at;
    if (n > left || in->owed + n > left)
        return false;
    in->owed += n;
    return true;
}

static PyObject *get(In *in, int depth) {
    int major, info;
    uint64_t n;
    if (!get_head(in, &major, &info, &n))
        return NULL;
    uint64_t left = in->end - in->at;
    switch (major) {
    case 0:
    case 1:
        return get_int(major, n);
    case 2:
        in->at += n <= left ? n : 0;
        return n <= left ? PyBytes_FromStringAndSize((const char *)in->at - n, n) : NULL;
    case 3:
        return n <= left ? get_text(in, n) : NULL;
    case 4:
        return depth < VALUES_NESTING && owe(in, n) ? get_list(in, n, depth + 1) : NULL;
    case 5:
        return n <= left && depth < VALUES_NESTING && owe(in, 2 * n) ? get_dict(in, n, depth + 1) : NULL;
    case 7:
        return get_simple(in, info);
    default: // a tag
        return NULL;
    }
}

// values_decode is decode_plain(data). It returns NotImplemented if data is not a plain value as a whole.
PyObject *values_decode(PyObject *Py_UNUSED(module), PyObject *data) {
    if (!PyBytes_CheckExact(data))
        Py_RETURN_NOTIMPLEMENTED;
    In in = {(const unsigned char *)PyBytes_AS_STRING(data), NULL, 0};
    in.end = in.at + PyBytes_GET_SIZE(data);
    PyObject *value = get(&in, 0);
    if (!value && PyErr_Occurred())
        return NULL;
    if (value && in.at == in.end)
        return value;
    Py_XDECREF(value);
    Py_RETURN_NOTIMPLEMENTED;
}
