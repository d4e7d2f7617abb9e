// Handle and TimerHandle: asyncio's handles, with the arguments inside the object and
// a list of spare ones, because every callback has one.
//
// The garbage collector does not see a handle while it is queued: the collector would visit
// thousands of handles that are about to be called and freed. The queues visit what a handle
// refers to in its place, if no other code holds the handle. handle_track shows a
// handle that has left its queue and is still held, because it may be part of a cycle. The same
// goes for the copy of the context that a handle makes for itself.
#include "core.h"

#define SPARE_ARGS 2 // arguments that a spare handle has space for
#define SPARE_MOST (int)(sizeof ((Spares *)0)->handles / sizeof *((Spares *)0)->handles)

static Handle *allocate(State *s, PyTypeObject *type, Py_ssize_t nargs) {
    if (nargs <= SPARE_ARGS && s->spares.handle_count > 0) {
        Handle *h = (Handle *)s->spares.handles[--s->spares.handle_count];
        PyTypeObject *old = Py_TYPE(h);
        if (old != type) {
            Py_INCREF(type);
            Py_SET_TYPE(h, type);
            Py_DECREF(old);
        }
        Py_SET_SIZE(h, nargs);
        _Py_NewReference((PyObject *)h);
        return h;
    }
    if (s->ended && state_has_ended())
        return NULL;
    // The first argument's slot is part of the basic size.
    Handle *h = PyObject_GC_NewVar(Handle, type, nargs < SPARE_ARGS ? SPARE_ARGS : nargs);
    if (h)
        Py_SET_SIZE(h, nargs);
    return h;
}

// give_back frees a handle that has space for no more than SPARE_ARGS arguments.
static inline void give_back(State *s, Handle *h) {
    if (s->spares.handle_count < SPARE_MOST && !s->ended)
        s->spares.handles[s->spares.handle_count++] = (PyObject *)h;
    else
        spare_delete((PyObject *)h);
}

Handle *handle_new(PyTypeObject *type, Loop *loop, PyObject *callback,
                   PyObject *const *args, Py_ssize_t nargs, PyObject *context) {
    if (context == Py_None)
        context = NULL;
    if (context && !PyContext_CheckExact(context)) { // track_context needs an object of that type
        PyErr_Format(PyExc_TypeError, "context must be a contextvars.Context or None, not '%.200s'",
                     Py_TYPE(context)->tp_name);
        return NULL;
    }
    Handle *h = allocate(loop->state, type, nargs);
    if (!h)
        return NULL;
    if (context) {
        Py_INCREF(context);
    } else if ((context = PyContext_CopyCurrent())) {
        PyObject_GC_UnTrack(context);
    } else {
        give_back(loop->state, h);
        return NULL;
    }
    Py_INCREF(loop);
    h->loop = loop;
    Py_INCREF(callback);
    h->callback = callback;
    h->context = context;
    h->source_traceback = h->repr = h->weakrefs = NULL;
    h->slot = -1;
    h->cancelled = h->running = false;
    for (Py_ssize_t i = 0; i < nargs; i++) {
        Py_INCREF(args[i]);
        h->args[i + 1] = args[i];
    }
    if (loop->debug) {
        h->source_traceback = PyObject_CallMethodNoArgs((PyObject *)loop, names.extract_stack);
        if (!h->source_traceback) {
            Py_DECREF(h);
            return NULL;
        }
    }
    return h;
}

// track_context makes the collector see the handle's context.
static void track_context(Handle *h) {
    if (h->context && !PyObject_GC_IsTracked(h->context))
        PyObject_GC_Track(h->context);
}

void handle_track(Handle *h) {
    if (Py_REFCNT(h) > 1 && !PyObject_GC_IsTracked((PyObject *)h)) {
        track_context(h);
        PyObject_GC_Track(h);
    }
}

int handle_visit(Handle *h, visitproc visit, void *arg) {
    if (PyObject_GC_IsTracked((PyObject *)h)) {
        Py_VISIT(h);
        return 0;
    }
    if (Py_REFCNT(h) > 1)
        return 0;
    if (h->context && !PyObject_GC_IsTracked(h->context) && Py_REFCNT(h->context) == 1) {
        int r = Py_TYPE(h->context)->tp_traverse(h->context, visit, arg);
        if (r)
            return r;
    }
    return Py_TYPE(h)->tp_traverse((PyObject *)h, visit, arg);
}

static void drop_call(Handle *h) {
    Py_CLEAR(h->callback);
    for (Py_ssize_t n; (n = Py_SIZE(h)) > 0;) { // what is given up may call this again
        Py_SET_SIZE(h, n - 1);
        Py_DECREF(h->args[n]);
    }
}

static int handle_traverse(Handle *h, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(h));
    Py_VISIT(h->loop);
    Py_VISIT(h->callback);
    Py_VISIT(h->context);
    Py_VISIT(h->source_traceback);
    for (Py_ssize_t i = 1; i <= Py_SIZE(h); i++)
        Py_VISIT(h->args[i]);
    return 0;
}

// The loop is kept: a handle may still be cancelled after its cycle is broken.
static int handle_clear(Handle *h) {
    h->cancelled = true;
    drop_call(h);
    track_context(h); // its deallocation needs that
    Py_CLEAR(h->context);
    Py_CLEAR(h->source_traceback);
    return 0;
}

static inline __attribute__((always_inline)) void destroy(State *s, Handle *h) {
    if (h->weakrefs)
        PyObject_ClearWeakRefs((PyObject *)h);
    bool small = Py_SIZE(h) <= SPARE_ARGS;
    handle_clear(h);
    Py_CLEAR(h->repr);
    Py_CLEAR(h->loop);
    if (small)
        give_back(s, h);
    else
        spare_delete((PyObject *)h);
}

// A handle may be the argument of another one, and that of a third. Such a chain must not be freed
// by recursion alone. Python's trashcan would make every callback 8 % more expensive.
#define NESTED_MOST 50

static void handle_dealloc(Handle *h);

// dealloc_at_end is for an interpreter that ends. Its state may be one that all of those share.
static __attribute__((noinline, cold)) void dealloc_at_end(State *s, Handle *h) {
    Py_TRASHCAN_BEGIN(h, handle_dealloc)
    destroy(s, h);
    Py_TRASHCAN_END
}

static __attribute__((noinline, cold)) void destroy_later(State *s) {
    while (s->later) {
        Handle *h = s->later;
        s->later = (Handle *)h->args[0];
        destroy(s, h);
    }
}

static void handle_dealloc(Handle *h) {
    PyObject_GC_UnTrack(h);
    State *s = h->loop->state;
    if (__builtin_expect(s->ended, 0)) {
        dealloc_at_end(s, h);
        return;
    }
    if (s->nested >= NESTED_MOST) {
        h->args[0] = (PyObject *)s->later; // they are linked by it
        s->later = h;
        return;
    }
    s->nested++;
    destroy(s, h);
    if (__builtin_expect(s->later != NULL, 0))
        destroy_later(s);
    s->nested--;
}

void handle_free_spare(State *s) {
    while (s->spares.handle_count > 0)
        spare_delete(s->spares.handles[--s->spares.handle_count]);
}

int handle_visit_spare(State *s, visitproc visit, void *arg) {
    for (int i = 0; i < s->spares.handle_count; i++)
        Py_VISIT(Py_TYPE(s->spares.handles[i]));
    return 0;
}

static int handle_failed(Handle *h) {
    if (exception_ends_loop()) {
        if (!h->loop->server || !h->loop->service->runs(h->loop, steps_task(h->callback)))
            return -1;
        PyErr_Clear(); // the server finds it in the task
        return 0;
    }
    PyObject *exc = exception_take();
    PyObject *r = PyObject_CallMethodObjArgs((PyObject *)h->loop, names.callback_failed, (PyObject *)h, exc, NULL);
    Py_XDECREF(exc);
    Py_XDECREF(r);
    return r ? 0 : -1;
}

// handle_run calls the callback. It returns -1 with an exception that is to end the
// loop; any other one goes to the loop's exception handler.
int handle_run(Handle *h) {
    if (h->cancelled)
        return 0;
    if (PyContext_Enter(h->context) < 0)
        return handle_failed(h);
    steps_note(h->loop, h->callback);
    bool again = h->running; // the callback has called this
    h->running = true;
    PyObject *r = PyObject_Vectorcall(h->callback, h->args + 1,
                                      Py_SIZE(h) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    h->running = again;
    if (PyContext_Exit(h->context) < 0)
        Py_CLEAR(r);
    if (!r)
        return handle_failed(h);
    Py_DECREF(r);
    if (h->cancelled && !again)
        drop_call(h);
    return 0;
}

void handle_cancel(Handle *h) {
    if (h->cancelled)
        return;
    h->cancelled = true;
    if (h->loop->debug && !h->repr) {
        h->repr = PyObject_Repr((PyObject *)h);
        if (!h->repr)
            PyErr_Clear();
    }
    if (!h->running)
        drop_call(h);
    if (h->slot >= 0) {
        handle_track(h);
        timers_remove(&h->loop->timers, h); // may be the last reference
    }
}

static PyObject *handle_meth_cancel(Handle *h, PyObject *Py_UNUSED(ignored)) {
    handle_cancel(h);
    Py_RETURN_NONE;
}

static PyObject *handle_meth_cancelled(Handle *h, PyObject *Py_UNUSED(ignored)) {
    return PyBool_FromLong(h->cancelled);
}

static PyObject *handle_meth_run(Handle *h, PyObject *Py_UNUSED(ignored)) {
    if (handle_run(h) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *handle_meth_context(Handle *h, PyObject *Py_UNUSED(ignored)) {
    track_context(h); // the caller may make it part of a cycle
    return Py_NewRef(h->context ? h->context : Py_None);
}

static PyObject *handle_meth_when(Handle *h, PyObject *Py_UNUSED(ignored)) {
    return PyFloat_FromDouble(h->when);
}

static PyObject *handle_get_args(Handle *h, void *Py_UNUSED(closure)) {
    if (!h->callback)
        Py_RETURN_NONE;
    PyObject *args = PyTuple_New(Py_SIZE(h));
    for (Py_ssize_t i = 0; args && i < Py_SIZE(h); i++)
        PyTuple_SET_ITEM(args, i, Py_NewRef(h->args[i + 1]));
    return args;
}

static PyObject *or_none(PyObject *o) { return Py_NewRef(o ? o : Py_None); }
static PyObject *handle_get_callback(Handle *h, void *Py_UNUSED(c)) { return or_none(h->callback); }
static PyObject *handle_get_context(Handle *h, void *Py_UNUSED(c)) { return handle_meth_context(h, NULL); }
static PyObject *handle_get_loop(Handle *h, void *Py_UNUSED(c)) { return or_none((PyObject *)h->loop); }
static PyObject *handle_get_traceback(Handle *h, void *Py_UNUSED(c)) { return or_none(h->source_traceback); }
static PyObject *handle_get_cancelled(Handle *h, void *Py_UNUSED(c)) { return PyBool_FromLong(h->cancelled); }
static PyObject *handle_get_scheduled(Handle *h, void *Py_UNUSED(c)) { return PyBool_FromLong(h->slot >= 0); }
static PyObject *handle_get_when(Handle *h, void *Py_UNUSED(c)) { return PyFloat_FromDouble(h->when); }

static PyObject *handle_repr(Handle *h) {
    if (h->repr)
        return Py_NewRef(h->repr);
    return PyObject_CallMethodObjArgs((PyObject *)h->loop, names.format_handle, (PyObject *)h, NULL);
}

static PyObject *timer_compare(PyObject *a, PyObject *b, int op) {
    PyTypeObject *timer = state()->types.timer_handle;
    if (Py_TYPE(a) != timer || Py_TYPE(b) != timer)
        Py_RETURN_NOTIMPLEMENTED;
    double x = ((Handle *)a)->when, y = ((Handle *)b)->when;
    if (op == Py_EQ || op == Py_NE)
        return PyBool_FromLong((a == b) == (op == Py_EQ));
    Py_RETURN_RICHCOMPARE(x, y, op);
}

static PyMethodDef handle_methods[] = {
    {"cancel", (PyCFunction)handle_meth_cancel, METH_NOARGS, "Cancel the callback."},
    {"cancelled", (PyCFunction)handle_meth_cancelled, METH_NOARGS, "Report whether the callback was cancelled."},
    {"get_context", (PyCFunction)handle_meth_context, METH_NOARGS, "Return the context of the callback."},
    {"_run", (PyCFunction)handle_meth_run, METH_NOARGS, NULL},
    {0},
};

static PyMethodDef timer_methods[] = {
    {"when", (PyCFunction)handle_meth_when, METH_NOARGS, "Return the time of the callback, by the loop's clock."},
    {0},
};

static PyGetSetDef handle_getset[] = {
    {"_callback", (getter)handle_get_callback},
    {"_args", (getter)handle_get_args},
    {"_context", (getter)handle_get_context},
    {"_loop", (getter)handle_get_loop},
    {"_source_traceback", (getter)handle_get_traceback},
    {"_cancelled", (getter)handle_get_cancelled},
    {0},
};

static PyGetSetDef timer_getset[] = {
    {"_when", (getter)handle_get_when},
    {"_scheduled", (getter)handle_get_scheduled},
    {0},
};

#include <structmember.h>
static PyMemberDef handle_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Handle, weakrefs), READONLY},
    {0},
};

static PyType_Slot handle_slots[] = {
    {Py_tp_doc, "A callback that call_soon has queued."},
    {Py_tp_traverse, handle_traverse},
    {Py_tp_clear, handle_clear},
    {Py_tp_dealloc, handle_dealloc},
    {Py_tp_repr, handle_repr},
    {Py_tp_methods, handle_methods},
    {Py_tp_members, handle_members},
    {Py_tp_getset, handle_getset},
    {0},
};

PyType_Spec handle_spec = {
    .name = "spindle.Handle",
    .basicsize = sizeof(Handle),
    .itemsize = sizeof(PyObject *),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = handle_slots,
};

static PyType_Slot timer_slots[] = {
    {Py_tp_doc, "A callback that call_later or call_at has scheduled."},
    {Py_tp_traverse, handle_traverse},
    {Py_tp_clear, handle_clear},
    {Py_tp_dealloc, handle_dealloc},
    {Py_tp_repr, handle_repr},
    {Py_tp_richcompare, timer_compare},
    {Py_tp_hash, Py_HashPointer},
    {Py_tp_methods, timer_methods},
    {Py_tp_getset, timer_getset},
    {0},
};

PyType_Spec timer_handle_spec = {
    .name = "spindle.TimerHandle",
    .basicsize = sizeof(Handle),
    .itemsize = sizeof(PyObject *),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = timer_slots,
};
