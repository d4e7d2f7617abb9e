// The timers of a loop: a binary heap. A handle knows its place, so that cancelling it
// takes it out at once and no cancelled timers pile up.
#include "core.h"

static inline bool before(Handle *a, Handle *b) {
    return a->when < b->when || (a->when == b->when && a->order < b->order);
}

static inline void put(Timers *t, Py_ssize_t i, Handle *h) {
    t->heap[i] = h;
    h->slot = i;
}

static void up(Timers *t, Py_ssize_t i, Handle *h) {
    while (i > 0) {
        Py_ssize_t parent = (i - 1) / 2;
        if (!before(h, t->heap[parent]))
            break;
        put(t, i, t->heap[parent]);
        i = parent;
    }
    put(t, i, h);
}

static void down(Timers *t, Py_ssize_t i, Handle *h) {
    for (;;) {
        Py_ssize_t child = 2 * i + 1;
        if (child >= t->len)
            break;
        if (child + 1 < t->len && before(t->heap[child + 1], t->heap[child]))
            child++;
        if (!before(t->heap[child], h))
            break;
        put(t, i, t->heap[child]);
        i = child;
    }
    put(t, i, h);
}

int timers_add(Timers *t, Handle *h) {
    if (t->len == t->cap) {
        Py_ssize_t cap = t->cap ? t->cap * 2 : 64;
        Handle **heap = PyMem_Realloc(t->heap, cap * sizeof *heap);
        if (!heap) {
            PyErr_NoMemory();
            return -1;
        }
        t->heap = heap;
        t->cap = cap;
    }
    Py_INCREF(h);
    h->order = t->order++;
    up(t, t->len++, h);
    return 0;
}

// take removes the handle at i, and gives its reference to the caller.
static Handle *take(Timers *t, Py_ssize_t i) {
    Handle *h = t->heap[i], *last = t->heap[--t->len];
    h->slot = -1;
    if (h != last) {
        if (i > 0 && before(last, t->heap[(i - 1) / 2]))
            up(t, i, last);
        else
            down(t, i, last);
    }
    return h;
}

void timers_remove(Timers *t, Handle *h) {
    if (h->slot >= 0)
        Py_DECREF(take(t, h->slot));
}

Handle *timers_pop(Timers *t) { return take(t, 0); }

int timers_visit(Timers *t, visitproc visit, void *arg) {
    for (Py_ssize_t i = 0; i < t->len; i++) {
        int result = handle_visit(t->heap[i], visit, arg);
        if (result)
            return result;
    }
    return 0;
}

void timers_clear(Timers *t) {
    while (t->len > 0) {
        Handle *h = take(t, t->len - 1);
        handle_track(h);
        Py_DECREF(h);
    }
    PyMem_Free(t->heap);
    *t = (Timers){.order = t->order};
}
