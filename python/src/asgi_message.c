// Names, and reading messages that an app sends. A message is a dict in practice, and any
// mapping by the specification.
#include "asgi.h"

PyObject *message_get(PyObject *message, PyObject *key) {
    if (PyDict_Check(message))
        return Py_XNewRef(PyDict_GetItemWithError(message, key));
    PyObject *value = PyObject_GetItem(message, key);
    if (!value && PyErr_ExceptionMatches(PyExc_KeyError))
        PyErr_Clear();
    return value;
}

PyObject *message_type(PyObject *message) {
    PyObject *type = message_get(message, asgi.type);
    if (type && PyUnicode_Check(type))
        return type;
    Py_XDECREF(type);
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "spindle: a message must have a 'type' that is a string");
    return NULL;
}

int message_flag(PyObject *message, PyObject *key) {
    PyObject *value = message_get(message, key);
    if (!value)
        return PyErr_Occurred() ? -1 : 0;
    int yes = PyObject_IsTrue(value);
    Py_DECREF(value);
    return yes;
}

int message_status(PyObject *message) {
    PyObject *status = message_get(message, asgi.status);
    if (!status) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_KeyError, "status");
        return -1;
    }
    long code = PyLong_AsLong(status);
    Py_DECREF(status);
    if (code == -1 && PyErr_Occurred())
        return -1;
    if (code < 200 || code > 999) {
        PyErr_Format(PyExc_ValueError, "spindle: %ld is not the status of a final response", code);
        return -1;
    }
    return (int)code;
}

int message_fits(Py_ssize_t len) {
    if (len <= 1 << 30)
        return 0;
    PyErr_SetString(PyExc_ValueError, "spindle: a message is larger than 1 GB; send it in pieces");
    return -1;
}

int message_bytes(PyObject *message, PyObject *key, Py_buffer *view) {
    view->obj = NULL;
    view->buf = NULL;
    view->len = 0;
    PyObject *value = message_get(message, key);
    if (!value)
        return PyErr_Occurred() ? -1 : 0;
    int r = 0;
    if (value != Py_None && PyObject_GetBuffer(value, view, PyBUF_SIMPLE) < 0) {
        PyErr_Format(PyExc_TypeError, "spindle: '%U' of a message must be bytes, not %.100s", key,
                     Py_TYPE(value)->tp_name);
        r = -1;
    }
    Py_DECREF(value);
    return r;
}

int asgi_init(PyObject *module) {
    if (!(state()->server = PyMem_RawCalloc(1, sizeof *state()->server))) {
        PyErr_NoMemory();
        return -1;
    }
    struct {
        PyObject **into;
        const char *text;
    } all[] = {
        {&asgi.type, "type"}, {&asgi.body, "body"}, {&asgi.more_body, "more_body"}, {&asgi.status, "status"},
        {&asgi.headers, "headers"}, {&asgi.trailers, "trailers"}, {&asgi.more_trailers, "more_trailers"},
        {&asgi.path, "path"}, {&asgi.links, "links"}, {&asgi.text, "text"}, {&asgi.bytes, "bytes"},
        {&asgi.code, "code"}, {&asgi.reason, "reason"}, {&asgi.subprotocol, "subprotocol"},
        {&asgi.raw_path, "raw_path"}, {&asgi.query_string, "query_string"}, {&asgi.method, "method"},
        {&asgi.client, "client"}, {&asgi.http_version, "http_version"}, {&asgi.scheme, "scheme"},
        {&asgi.asgi_, "asgi"}, {&asgi.extensions, "extensions"}, {&asgi.state, "state"}, {&asgi.subprotocols, "subprotocols"}, {&asgi.done, "done"},
        {&asgi.exception, "exception"}, {&asgi.add_done_callback, "add_done_callback"},
        {&asgi.set_result, "set_result"}, {&asgi.cancel, "cancel"}, {&asgi.result, "result"},
        {&asgi.cancelled, "cancelled"},
        {&asgi.request, "http.request"}, {&asgi.disconnect, "http.disconnect"},
        {&asgi.response_start, "http.response.start"}, {&asgi.response_body, "http.response.body"},
        {&asgi.response_trailers, "http.response.trailers"}, {&asgi.pathsend, "http.response.pathsend"},
        {&asgi.early_hint, "http.response.early_hint"}, {&asgi.ws_connect, "websocket.connect"},
        {&asgi.ws_receive, "websocket.receive"}, {&asgi.ws_disconnect, "websocket.disconnect"},
        {&asgi.ws_accept, "websocket.accept"}, {&asgi.ws_send, "websocket.send"},
        {&asgi.ws_close, "websocket.close"}, {&asgi.ws_response_start, "websocket.http.response.start"},
        {&asgi.ws_response_body, "websocket.http.response.body"}, {&asgi.version_10, "1.0"}, {&asgi.version_2, "2"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!(*all[i].into = PyUnicode_InternFromString(all[i].text)))
            return -1;
    if (!(asgi.empty = PyBytes_FromStringAndSize("", 0)) || scope_init() < 0)
        return -1;
    struct ServerState *s = server_state();
    return (s->server = state_type(module, &server_spec, NULL)) && (s->exchange = state_type(module, &exchange_spec, NULL)) &&
                   (s->operation = state_type(module, &operation_spec, NULL)) &&
                   (s->receive = state_type(module, &receive_spec, NULL)) && (s->send = state_type(module, &send_spec, NULL))
               ? 0
               : -1;
}

int asgi_traverse(State *of, visitproc visit, void *arg) {
    struct ServerState *s = of->server;
    if (!s)
        return 0;
    Py_VISIT(s->server);
    Py_VISIT(s->exchange);
    Py_VISIT(s->operation);
    Py_VISIT(s->receive);
    Py_VISIT(s->send);
    for (int i = 0; i < s->spare_exchange_count; i++)
        Py_VISIT(Py_TYPE(s->spare_exchanges[i]));
    for (int i = 0; i < s->spare_operation_count; i++)
        Py_VISIT(Py_TYPE(s->spare_operations[i]));
    for (int i = 0; i < s->spare_callable_count; i++)
        Py_VISIT(Py_TYPE(s->spare_callables[i]));
    return 0;
}

void asgi_free(State *of) {
    struct ServerState *s = of->server;
    if (!s)
        return;
    exchange_free_spare(s);
    operation_free_spare(s);
    Py_CLEAR(s->server);
    Py_CLEAR(s->exchange);
    Py_CLEAR(s->operation);
    Py_CLEAR(s->receive);
    Py_CLEAR(s->send);
    scope_free(s);
    PyObject **each = (PyObject **)&s->words;
    for (size_t i = 0; i < sizeof s->words / sizeof *each; i++)
        Py_XDECREF(each[i]);
    PyMem_RawFree(s);
    of->server = NULL;
}
