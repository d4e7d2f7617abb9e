// Checks the configuration of a server before its app starts.
#include "asgi.h"

// server_check raises OSError if the certificates of a configuration cannot be used.
PyObject *server_check(PyObject *Py_UNUSED(module), PyObject *config) {
    static int (*check)(const char *config, int size, char *message, int capacity);
    char *text, message[1024] = "";
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(config, &text, &size) < 0 || golib_load() < 0 ||
        golib_symbol("SpindleCheck", (void **)&check) < 0)
        return NULL;
    if (check(text, (int)size, message, sizeof message) < 0) {
        PyErr_SetString(PyExc_OSError, message);
        return NULL;
    }
    Py_RETURN_NONE;
}
