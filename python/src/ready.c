// The queue of what runs in the next tick: a ring that doubles when it is full.
#include "core.h"

static int grow(Ready *r) {
    size_t len = ready_len(r), cap = r->items ? (r->mask + 1) * 2 : 256;
    ReadyItem *items = PyMem_Malloc(cap * sizeof *items);
    if (!items) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < len; i++)
        items[i] = r->items[(r->head + i) & r->mask];
    PyMem_Free(r->items);
    *r = (Ready){.items = items, .tail = len, .mask = cap - 1};
    return 0;
}

int ready_push(Ready *r, PyObject *what, int ready) {
    if ((!r->items || ready_len(r) > r->mask) && grow(r) < 0)
        return -1;
    Py_INCREF(what);
    r->items[r->tail++ & r->mask] = (ReadyItem){what, ready};
    return 0;
}

int ready_visit(Ready *r, visitproc visit, void *arg) {
    for (size_t i = r->head; i != r->tail; i++) {
        PyObject *what = r->items[i & r->mask].what;
        if (!Handle_Check(what)) {
            Py_VISIT(what);
            continue;
        }
        int result = handle_visit((Handle *)what, visit, arg);
        if (result)
            return result;
    }
    return 0;
}

void ready_clear(Ready *r) {
    while (ready_len(r) > 0) {
        PyObject *what = ready_pop(r).what;
        if (Handle_Check(what))
            handle_track((Handle *)what);
        Py_DECREF(what);
    }
    PyMem_Free(r->items);
    *r = (Ready){0};
}
