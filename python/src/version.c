// What libspindle.so says about itself.
#include "core.h"

PyObject *library_version(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    void (*version)(char *text, int capacity);
    if (golib_load() < 0 || golib_symbol("SpindleVersion", (void **)&version) < 0)
        return NULL;
    char text[100] = "";
    version(text, sizeof text);
    return PyUnicode_FromString(text);
}
