// The extension module _core.
#include "asgi.h"
#include "internals.h"
#include "values.h"
#include "world.h"
#include <sys/mman.h>

#ifdef Py_GIL_DISABLED
#error "spindle: free-threaded builds of Python are not supported yet; use a build with the GIL"
#endif

static PyObject *set_library(PyObject *Py_UNUSED(module), PyObject *path) {
    const char *text = PyUnicode_AsUTF8(path);
    if (!text || golib_set_path(text) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *forked(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    golib_forked();
    Py_RETURN_NONE;
}

// prefer_huge_pages makes the system give memory that is to be filled in large pieces: with small pages, the faults
// take as long as the copying.
static void prefer_huge_pages(char *data, Py_ssize_t n) {
#ifdef MADV_HUGEPAGE
    const uintptr_t page = 2 << 20;
    uintptr_t from = ((uintptr_t)data + page - 1) & ~(page - 1), to = ((uintptr_t)data + n) & ~(page - 1);
    if (from < to)
        madvise((void *)from, to - from, MADV_HUGEPAGE); // fails on systems without them
#endif
}

// new_bytes returns bytes of a size, and a memoryview to fill them before any other code sees them.
static PyObject *new_bytes(PyObject *Py_UNUSED(module), PyObject *size) {
    Py_ssize_t n = PyLong_AsSsize_t(size);
    if (n < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "spindle: new_bytes: a negative size");
        return NULL;
    }
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, n);
    if (bytes)
        prefer_huge_pages(PyBytes_AS_STRING(bytes), n);
    PyObject *view = bytes ? PyMemoryView_FromMemory(PyBytes_AS_STRING(bytes), n, PyBUF_WRITE) : NULL;
    PyObject *both = view ? PyTuple_Pack(2, bytes, view) : NULL;
    Py_XDECREF(bytes);
    Py_XDECREF(view);
    return both;
}

static PyMethodDef methods[] = {
    {"new_bytes", new_bytes, METH_O, "Return bytes and a memoryview to fill them."},
    {"encode_plain", values_encode, METH_O, "Return a plain value as CBOR, or NotImplemented."},
    {"decode_plain", values_decode, METH_O, "Return the plain value of CBOR, or NotImplemented."},
    {"set_library", set_library, METH_O, "Set the path of libspindle.so."},
    {"forked", forked, METH_NOARGS, "Refuse loops from now on, in the child of a fork."},
    {"inspect", inspect_serve, METH_O, "Serve the inspector on an address, and return the address."},
    {"check_server", server_check, METH_O, "Raise OSError if a server cannot be started with a configuration."},
    {"library_version", library_version, METH_NOARGS, "Return the versions of libspindle.so and of its Go."},
    {"receive_datagram", datagram_receive, METH_O, "Receive a datagram and its sender's address, or None."},
    {"adopt_registry", registry_adopt, METH_O, "Add tasks to asyncio's set of them without Python code."},
    {"adopt", (PyCFunction)(void (*)(void))stream_adopt, METH_FASTCALL,
     "Replace the StreamReader of a new protocol by one of the module's own type."},
    {"world_enter", world_enter, METH_VARARGS, "Make clocks and random numbers of this thread those of a world."},
    {"world_clock", world_clock, METH_VARARGS, "Set the clocks of the world that this thread runs."},
    {"world_refuse_by", world_refuse_by, METH_O, "Set what is called for a use of the real system inside a world."},
    {"world_leave", world_leave, METH_NOARGS, "Undo world_enter."},
    {0},
};

// The collector has this function to its own end. So it does not refer to the module, which would never be freed.
static PyMethodDef track_held = {
    "track_held", (PyCFunction)(void (*)(void))loops_track_held, METH_FASTCALL,
    "Show the collector the handles of loops that the program holds; for gc.callbacks."};

// The types refer to the module, and the module to the types: the collector frees them together. Until then objects of
// the types can still be used, so names stay to the last.

static int traverse_module(PyObject *m, visitproc visit, void *arg) {
    State *s = state_of(m);
    if (!s)
        return 0;
    int r = names_visit(s, visit, arg);
    if (r || (r = handle_visit_spare(s, visit, arg)))
        return r;
    if (s->spares.reading)
        Py_VISIT(Py_TYPE(s->spares.reading));
    Py_VISIT(s->types.loop);
    Py_VISIT(s->types.handle);
    Py_VISIT(s->types.timer_handle);
    Py_VISIT(s->types.stream_reader);
    Py_VISIT(s->types.reading);
    return asgi_traverse(s, visit, arg);
}

// clear_module breaks no cycle: types forget their module by themselves.
static int clear_module(PyObject *m) {
    State *s = state_of(m);
    if (s)
        s->ended = true;
    return 0;
}

static void free_module(void *m) {
    State *s = state_of(m);
    if (!s)
        return;
    state_leave(s); // what is freed here does not find it
    loops_leave(s);
    handle_free_spare(s);
    stream_free_spare(s);
    asgi_free(s);
    datagrams_free(s);
    Py_CLEAR(s->types.loop);
    Py_CLEAR(s->types.handle);
    Py_CLEAR(s->types.timer_handle);
    Py_CLEAR(s->types.stream_reader);
    Py_CLEAR(s->types.reading);
    names_free(s);
    PyMem_RawFree(s);
}

static int add_types(PyObject *m) {
    Types *t = &state()->types;
    if (!(t->loop = state_type(m, &loop_spec, NULL)) || !(t->handle = state_type(m, &handle_spec, NULL)) ||
        !(t->timer_handle = state_type(m, &timer_handle_spec, t->handle)) ||
        !(t->stream_reader = state_type(m, &stream_reader_spec, NULL)) || !(t->reading = state_type(m, &reading_spec, NULL)))
        return -1;
    PyTypeObject *base = (PyTypeObject *)transport_base(), *transport = base ? state_type(m, &transport_spec, base) : NULL;
    Py_XDECREF(base);
    Py_XDECREF(transport);
    PyTypeObject *world = transport ? state_type(m, &world_spec, NULL) : NULL;
    Py_XDECREF(world);
    PyObject *task = world ? world_task_type() : NULL, *held = task ? PyCFunction_New(&track_held, NULL) : NULL;
    int r = held && PyModule_AddObjectRef(m, "WorldTask", task) == 0 ? PyModule_AddObjectRef(m, "track_held", held) : -1;
    Py_XDECREF(task);
    Py_XDECREF(held);
    return r;
}

static int execute(PyObject *m) {
#if PY_VERSION_HEX < 0x030D0000
    if (!state_is_main()) {
        PyErr_SetString(PyExc_ImportError, "spindle: loops in subinterpreters need CPython 3.13: asyncio of older versions "
                                           "shares objects between interpreters");
        return -1;
    }
#endif
    return state_enter(m) < 0 || internals_check() < 0 || names_init() < 0 || add_types(m) < 0 ? -1 : asgi_init(m);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#if PY_VERSION_HEX >= 0x030D0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#elif defined(Py_mod_multiple_interpreters)
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "spindle._core",
    .m_doc = "The parts of the loop that are hot.",
    .m_size = sizeof(State *),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse_module,
    .m_clear = clear_module,
    .m_free = free_module,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
