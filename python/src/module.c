// The extension module _core.
#include "core.h"

Names names;
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

static PyMethodDef methods[] = {
    {"set_library", set_library, METH_O, "Set the path of libspindle.so."},
    {"forked", forked, METH_NOARGS, "Refuse loops from now on, in the child of a fork."},
    {0},
};

static void free_module(void *Py_UNUSED(module)) { handle_free_spare(); }

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "spindle._core",
    .m_doc = "The parts of the loop that are hot.",
    .m_size = -1,
    .m_methods = methods,
    .m_free = free_module,
};

static PyObject *import_from(const char *module, const char *name) {
    PyObject *m = PyImport_ImportModule(module);
    PyObject *found = m ? PyObject_GetAttrString(m, name) : NULL;
    Py_XDECREF(m);
    return found;
}

static int intern_names(void) {
    struct {
        PyObject **into;
        const char *text;
    } all[] = {
        {&names.check_thread, "_check_thread"},
        {&names.callback_failed, "_callback_failed"},
        {&names.run, "_run"},
        {&names.cancelled, "cancelled"},
        {&names.data_received, "data_received"},
        {&names.get_buffer, "get_buffer"},
        {&names.buffer_updated, "buffer_updated"},
        {&names.eof_received, "eof_received"},
        {&names.pause_writing, "pause_writing"},
        {&names.resume_writing, "resume_writing"},
        {&names.protocol_failed, "_protocol_failed"},
        {&names.context, "context"},
        {&names.extract_stack, "_extract_stack"},
        {&names.format_handle, "_format_handle"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!(*all[i].into = PyUnicode_InternFromString(all[i].text)))
            return -1;
    names.buffered_protocol = import_from("asyncio.protocols", "BufferedProtocol");
    names.future_type = import_from("asyncio.futures", "Future");
    names.task_type = import_from("asyncio.tasks", "Task");
    PyObject *base = import_from("asyncio.base_events", "BaseEventLoop");
    names.base_create_task = base ? PyObject_GetAttrString(base, "create_task") : NULL;
    Py_XDECREF(base);
    names.loop_keyword = Py_BuildValue("(s)", "loop");
    return names.buffered_protocol && names.future_type && names.task_type && names.base_create_task &&
                   names.loop_keyword
               ? 0
               : -1;
}

PyMODINIT_FUNC PyInit__core(void) {
    if (intern_names() < 0)
        return NULL;
    PyObject *m = PyModule_Create(&definition);
    PyObject *transport = transport_type();
    if (!m || !transport || PyModule_AddObjectRef(m, "Transport", transport) < 0 || PyModule_AddType(m, &Loop_Type) < 0 || PyModule_AddType(m, &Handle_Type) < 0 ||
        PyModule_AddType(m, &TimerHandle_Type) < 0)
        Py_CLEAR(m);
    Py_XDECREF(transport);
    return m;
}
