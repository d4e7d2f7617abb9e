// Plain values as CBOR, for calls between Go and Python: values_encode.c and values_decode.c.
#ifndef SPINDLE_VALUES_H
#define SPINDLE_VALUES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#define VALUES_NESTING 64 // how deep lists and dicts may be; deeper ones are not plain

PyObject *values_encode(PyObject *module, PyObject *value);
PyObject *values_decode(PyObject *module, PyObject *data);

#endif
