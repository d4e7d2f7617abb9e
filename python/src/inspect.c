// What the inspector of Go asks for: the tasks of a loop, on its thread, and what blocks it.
#include "core.h"
#include <pthread.h>
#include <string.h>

bool inspected;

PyObject *inspect_serve(PyObject *Py_UNUSED(module), PyObject *address) {
    const char *text = PyUnicode_AsUTF8(address);
    if (!text || golib_load() < 0)
        return NULL;
    static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
    static char served[512]; // the address, if there is an inspector; guarded by mu
    char answer[512];
    int r = 0;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&mu);
    if (!*served && (r = golib.inspect(text, answer, sizeof answer)) == 0)
        strcpy(served, answer);
    if (*served) // there is one for all interpreters
        strcpy(answer, served);
    pthread_mutex_unlock(&mu);
    Py_END_ALLOW_THREADS
    if (r < 0) {
        PyErr_SetString(PyExc_OSError, answer);
        return NULL;
    }
    inspected = true;
    return PyUnicode_FromString(answer);
}

// keep_interrupt keeps the present exception for poll_once, if it is to end the loop. Go, which
// is between here and there, cannot pass it on.
static void keep_interrupt(Loop *l) {
    if (!exception_ends_loop()) {
        PyErr_WriteUnraisable((PyObject *)l);
        return;
    }
    Py_XSETREF(l->interrupt, exception_take());
}

char *inspect_tasks(void *loop, bool first) {
    Loop *l = loop;
    bool released = l->suspended; // Go is called with and without the GIL
    if (released)
        PyEval_RestoreThread(l->suspended);
    char *text = NULL;
    PyObject *r = PyObject_CallMethod((PyObject *)l, "_inspect_tasks", "O", first ? Py_True : Py_False);
    if (r && PyUnicode_Check(r)) {
        const char *utf8 = PyUnicode_AsUTF8(r);
        text = utf8 ? strdup(utf8) : NULL;
    }
    if (PyErr_Occurred())
        keep_interrupt(l);
    Py_XDECREF(r);
    if (released)
        l->suspended = PyEval_SaveThread();
    return text;
}

// inspect_blocked passes on that a callback blocks the loop. found is what _report_blocked
// returned, or NULL if Python has not been asked.
void inspect_blocked(Loop *l, unsigned long pulse, double seconds, PyObject *found) {
    SpindleBlock b = {.pulse = pulse, .seconds = seconds};
    if (found && !PyArg_ParseTuple(found, "sss", &b.task, &b.at, &b.stack))
        PyErr_Clear();
    golib.blocked(l->id, &b);
}

void inspect_unblocked(Loop *l) { golib.blocked(l->id, NULL); }
