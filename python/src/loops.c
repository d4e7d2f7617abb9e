// All loops of an interpreter, for the collector.
//
// The collector does not see handles while they are queued (handle.c). A handle that the program
// holds as well, as a task in asyncio.sleep does, may be part of a cycle with its loop, which
// would never be freed. Those handles are shown when a collection of all generations begins.
#include "internals.h"

void loops_add(Loop *l) {
    Loop **all = &l->state->loops;
    if ((l->next = *all))
        (*all)->prev = l;
    *all = l;
}

void loops_remove(Loop *l) {
    if (l->next)
        l->next->prev = l->prev;
    if (l->prev)
        l->prev->next = l->next;
    else if (l->state && l->state->loops == l)
        l->state->loops = l->next;
    l->prev = l->next = NULL;
}

void loops_leave(State *s) {
    while (s->loops) {
        Loop *l = s->loops;
        loops_remove(l);
        l->state = state();
    }
}

// loops_track_held is a callback of the collector.
PyObject *loops_track_held(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2 || !PyDict_Check(args[1]) || PyUnicode_CompareWithASCIIString(args[0], "start") != 0)
        Py_RETURN_NONE;
    PyObject *generation = PyDict_GetItemString(args[1], "generation");
    if (!generation || PyLong_AsLong(generation) < OLDEST_GENERATION)
        Py_RETURN_NONE;
    for (Loop *l = state()->loops; l; l = l->next) { // none if the module is gone
        for (size_t i = l->ready.head; i != l->ready.tail; i++) {
            PyObject *what = l->ready.items[i & l->ready.mask].what;
            if (Handle_Check(what))
                handle_track((Handle *)what);
        }
        for (Py_ssize_t i = 0; i < l->timers.len; i++)
            handle_track(l->timers.heap[i]);
    }
    Py_RETURN_NONE;
}
