// The extension module _core.
#include "asgi.h"
#include "internals.h"
#include "world.h"

#ifdef Py_GIL_DISABLED
#error "spindle: free-threaded builds of Python are not supported yet; use a build with the GIL"
#endif

extern PyObject *golib_path;

static PyObject *set_library(PyObject *Py_UNUSED(module), PyObject *path) {
    Py_INCREF(path);
    Py_XSETREF(golib_path, path);
    Py_RETURN_NONE;
}

static PyObject *forked(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    golib_forked();
    Py_RETURN_NONE;
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
    PyObject *view = bytes ? PyMemoryView_FromMemory(PyBytes_AS_STRING(bytes), n, PyBUF_WRITE) : NULL;
    PyObject *both = view ? PyTuple_Pack(2, bytes, view) : NULL;
    Py_XDECREF(bytes);
    Py_XDECREF(view);
    return both;
}

static PyMethodDef methods[] = {
    {"new_bytes", new_bytes, METH_O, "Return bytes and a memoryview to fill them."},
    {"set_library", set_library, METH_O, "Set the path of libspindle.so."},
    {"forked", forked, METH_NOARGS, "Refuse loops from now on, in the child of a fork."},
    {"inspect", inspect_serve, METH_O, "Serve the inspector on an address, and return the address."},
    {"check_server", server_check, METH_O, "Raise OSError if a server cannot be started with a configuration."},
    {"library_version", library_version, METH_NOARGS, "Return the versions of libspindle.so and of its Go."},
    {"track_held", (PyCFunction)(void (*)(void))loops_track_held, METH_FASTCALL,
     "Show the collector the handles of loops that the program holds; for gc.callbacks."},
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

static void free_module(void *Py_UNUSED(module)) {
    handle_free_spare();
    stream_free_spare();
}

// execute fills the module. Handles and types are shared by the whole process, so that a
// subinterpreter cannot have a module of its own.
static int execute(PyObject *m) {
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "spindle: subinterpreters are not supported");
        return -1;
    }
    if (internals_check() < 0 || names_init() < 0)
        return -1;
    PyObject *transport = transport_type();
    int r = transport ? PyModule_AddObjectRef(m, "Transport", transport) : -1;
    Py_XDECREF(transport);
    PyObject *world_task = r == 0 ? world_task_type() : NULL;
    r = world_task ? PyModule_AddObjectRef(m, "WorldTask", world_task) : -1;
    Py_XDECREF(world_task);
    PyTypeObject *types[] = {&Loop_Type, &Handle_Type, &TimerHandle_Type, &StreamReader_Type, &Reading_Type, &World_Type};
    for (size_t i = 0; r == 0 && i < sizeof types / sizeof *types; i++)
        r = PyModule_AddType(m, types[i]);
    return r == 0 ? asgi_init(m) : r;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "spindle._core",
    .m_doc = "The parts of the loop that are hot.",
    .m_methods = methods,
    .m_slots = slots,
    .m_free = free_module,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
