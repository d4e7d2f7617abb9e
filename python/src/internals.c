// Checks what internals.h lists. All of it together takes a fraction of a millisecond.
#include "internals.h"

bool internals_refuse(const char *needed) {
    PyErr_Clear();
    PyErr_Format(PyExc_ImportError,
                 "spindle needs %s as in " KNOWN_VERSIONS "; this is CPython %d.%d.%d: install a spindle-loop that knows "
                 "this version, or one of those versions of CPython",
                 needed, (int)(Py_Version >> 24 & 255), (int)(Py_Version >> 16 & 255), (int)(Py_Version >> 8 & 255));
    return false;
}

static bool check_version(void) {
    return Py_Version >> 16 == PY_VERSION_HEX >> 16 || internals_refuse("the interpreter that it was compiled for, and asyncio");
}

static bool check_contexts(void) {
    PyObject *context = PyContext_CopyCurrent();
    bool good = context && PyObject_GC_IsTracked(context) && Py_TYPE(context)->tp_traverse;
    if (good) {
        PyObject_GC_UnTrack(context);
        good = !PyObject_GC_IsTracked(context);
        PyObject_GC_Track(context);
    }
    Py_XDECREF(context);
    return good || internals_refuse("contexts that the collector sees");
}

static bool check_collector(void) {
    PyObject *gc = PyImport_ImportModule("gc");
    PyObject *stats = gc ? PyObject_CallMethod(gc, "get_stats", NULL) : NULL;
    bool good = stats && PyList_Check(stats) && PyList_GET_SIZE(stats) == 3;
    Py_XDECREF(stats);
    Py_XDECREF(gc);
    return good || internals_refuse("a collector with three generations");
}

// probe calls a function of spindle/internals.py. It returns a new reference, NULL with an exception.
static PyObject *probe(const char *function, const char *format, PyObject *argument) {
    PyObject *module = PyImport_ImportModule("spindle.internals");
    PyObject *result = module ? PyObject_CallMethod(module, function, format, argument) : NULL;
    Py_XDECREF(module);
    return result;
}

// check_steps also learns the type of the callback with which tasks start.
static bool check_steps(void) {
    PyObject *found = probe("task_and_step", NULL, NULL), *task, *step;
    bool good = found && PyArg_ParseTuple(found, "OO", &task, &step) &&
                Py_TYPE(step)->tp_basicsize >= (Py_ssize_t)sizeof(TaskStep) && ((TaskStep *)step)->task == task;
    if (good)
        names.step_type = (PyTypeObject *)Py_NewRef(Py_TYPE(step));
    Py_XDECREF(found);
    return good || internals_refuse("tasks of asyncio");
}

static PyObject *names_of(const char *const *texts) {
    PyObject *list = PyList_New(0);
    for (; list && *texts; texts++) {
        PyObject *text = PyUnicode_FromString(*texts);
        if (!text || PyList_Append(list, text) < 0)
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

static bool is_true(const char *function, const char *const *texts) {
    PyObject *wanted = names_of(texts), *result = wanted ? probe(function, "(N)", wanted) : NULL;
    bool yes = result == Py_True;
    Py_XDECREF(result);
    return yes;
}

int internals_check(void) {
    static const char *const reader[] = {STREAM_READER_ATTRIBUTES, NULL}, *const loop[] = {LOOP_MEMBERS, NULL};
    return check_version() && check_contexts() && check_collector() && check_steps() &&
                   (is_true("has_streams", reader) || internals_refuse("streams of asyncio")) &&
                   (is_true("has_loop", loop) || internals_refuse("event loops of asyncio"))
               ? 0
               : -1;
}
