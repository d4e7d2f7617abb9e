// Passes the records of Go's log to Python's logging, after a poll and when a loop is closed.
#include "core.h"
#include <stdlib.h>

uint32_t golog_waits;

// pass_on calls emit of spindle/golog.py.
static int pass_on(const SpindleLogRecord *r) {
    PyObject *module = PyImport_ImportModule("spindle.golog");
    PyObject *done = module ? PyObject_CallMethod(module, "emit", "sis", r->logger, r->level, r->text) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(done);
    if (done)
        return 0;
    if (exception_ends_loop())
        return -1;
    PyErr_WriteUnraisable(NULL);
    return 0;
}

int golog_deliver(void) {
    SpindleLogRecord record;
    int result = 0;
    while (result == 0 && golib.take_log(&record) > 0) {
        result = pass_on(&record);
        free(record.logger);
        free(record.text);
    }
    return result;
}
