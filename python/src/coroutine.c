// What the coroutines that are written in C have in common: the methods that a program or a task may call
// in place of awaiting them.
#include "core.h"

// coroutine_result returns the result of a step in the way that send and __next__ do.
PyObject *coroutine_result(PySendResult sent, PyObject *result) {
    if (sent != PYGEN_RETURN)
        return result;
    if (result == Py_None) {
        PyErr_SetNone(PyExc_StopIteration);
    } else {
        PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, result); // a tuple would be taken for its arguments
        if (stop)
            PyErr_SetObject(PyExc_StopIteration, stop);
        Py_XDECREF(stop);
    }
    Py_DECREF(result);
    return NULL;
}

// coroutine_throw raises an exception in a coroutine: in the iterator that it awaits, or in the coroutine
// itself if waiting is NULL.
PyObject *coroutine_throw(PyObject *waiting, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs < 1 || nargs > 3) {
        PyErr_Format(PyExc_TypeError, "throw expected 1 to 3 arguments, got %zd", nargs);
        return NULL;
    }
    if (waiting) {
        PyObject *throw = PyObject_GetAttr(waiting, names.throw_);
        PyObject *r = throw ? PyObject_Vectorcall(throw, args, nargs, NULL) : NULL;
        Py_XDECREF(throw);
        return r;
    }
    PyObject *type = args[0], *value = nargs > 1 ? args[1] : NULL, *traceback = nargs > 2 ? args[2] : NULL;
    if (PyExceptionInstance_Check(type)) {
        value = type;
        type = (PyObject *)Py_TYPE(type);
    } else if (!PyExceptionClass_Check(type)) {
        PyErr_SetString(PyExc_TypeError, "exceptions must be classes or instances deriving from BaseException");
        return NULL;
    }
    PyErr_Restore(Py_NewRef(type), Py_XNewRef(value), Py_XNewRef(traceback == Py_None ? NULL : traceback));
    return NULL;
}
