// Names and types of Python that the other files use.
#include "core.h"

static PyObject *import_from(const char *module, const char *name) {
    PyObject *m = PyImport_ImportModule(module);
    PyObject *found = m ? PyObject_GetAttrString(m, name) : NULL;
    Py_XDECREF(m);
    return found;
}

int names_init(void) {
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
        {&names.set_result, "set_result"},
        {&names.extend, "extend"},
        {&names.pause_reading, "pause_reading"},
        {&names.resume_reading, "resume_reading"},
        {&names.create_future, "create_future"},
        {&names.create_task, "create_task"},
        {&names.name, "name"},
        {&names.throw_, "throw"},
        {&names.close, "close"},
        {&names.strong_reader, "_strong_reader"},
        {&names.reader_ref, "_stream_reader_wr"},
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
    names.stream_reader = import_from("asyncio.streams", "StreamReader");
    names.stream_protocol = import_from("asyncio.streams", "StreamReaderProtocol");
    if (!names.stream_reader || !names.stream_protocol)
        return -1;
    names.base_read = PyObject_GetAttrString(names.stream_reader, "read");
    names.stream_data_received = PyObject_GetAttr(names.stream_protocol, names.data_received);
    names.loop_keyword = Py_BuildValue("(s)", "loop");
    names.loop_and_name_keywords = Py_BuildValue("(sO)", "loop", names.name);
    names.name_keyword = Py_BuildValue("(O)", names.name);
    names.minus_one = PyLong_FromLong(-1);
    return names.buffered_protocol && names.future_type && names.task_type && names.base_create_task &&
                   names.base_read && names.stream_data_received && names.loop_keyword && names.loop_and_name_keywords &&
                   names.name_keyword && names.minus_one
               ? 0
               : -1;
}

int names_visit(State *s, visitproc visit, void *arg) {
    PyObject **each = (PyObject **)&s->words;
    for (size_t i = 0; i < sizeof s->words / sizeof *each; i++)
        Py_VISIT(each[i]);
    return 0;
}

void names_free(State *s) {
    PyObject **each = (PyObject **)&s->words;
    for (size_t i = 0; i < sizeof s->words / sizeof *each; i++)
        Py_CLEAR(each[i]);
}
