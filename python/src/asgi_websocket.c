// receive and send of a WebSocket: the messages of ASGI's WebSocket protocol and their
// order. Go does the handshake, once the app has accepted.
#include "asgi.h"

static PyObject *only_type(PyObject *type) {
    PyObject *message = PyDict_New();
    if (message && PyDict_SetItem(message, asgi.type, type) < 0)
        Py_CLEAR(message);
    return message;
}

static Py_ssize_t size_of(PyObject *message) {
    PyObject *text = PyDict_GetItem(message, asgi.text), *bytes = PyDict_GetItem(message, asgi.bytes);
    if (bytes && bytes != Py_None)
        return PyBytes_GET_SIZE(bytes);
    Py_ssize_t n = 0;
    if (text)
        PyUnicode_AsUTF8AndSize(text, &n);
    return n;
}

// websocket_receive returns websocket.connect, then the messages, then
// websocket.disconnect.
PyObject *websocket_receive(Exchange *x) {
    if (!x->connected) {
        x->connected = true;
        return only_type(asgi.ws_connect);
    }
    if (x->inbox && PyList_GET_SIZE(x->inbox) > 0) {
        PyObject *message = Py_NewRef(PyList_GET_ITEM(x->inbox, 0));
        if (PyList_SetSlice(x->inbox, 0, 1, NULL) < 0)
            Py_CLEAR(message);
        else if (!x->gone && !x->released && x->server->box)
            server_out(x->server, SPINDLE_CONSUMED, 0, x->slot, (uint32_t)size_of(message), 0);
        return message;
    }
    if (x->gone || x->phase == WS_CLOSED) {
        PyObject *message = only_type(asgi.ws_disconnect);
        PyObject *code = message ? PyLong_FromLong(x->code ? x->code : 1006) : NULL;
        if (!code || PyDict_SetItem(message, asgi.code, code) < 0 ||
            PyDict_SetItem(message, asgi.reason, x->reason ? x->reason : Py_None) < 0)
            Py_CLEAR(message);
        Py_XDECREF(code);
        return message;
    }
    return NULL;
}

// fields_out puts a record with fields into the outbox. subprotocol may be NULL or None.
static int fields_out(Exchange *x, int kind, int flags, PyObject *headers, PyObject *subprotocol) {
    PyObject *list = headers ? PySequence_Fast(headers, "spindle: 'headers' of a message must be a list of pairs")
                             : PyList_New(0);
    if (!list)
        return -1;
    const char *protocol = NULL;
    Py_ssize_t protocol_len = 0, size = 0;
    if (subprotocol && subprotocol != Py_None && !(protocol = PyUnicode_AsUTF8AndSize(subprotocol, &protocol_len))) {
        Py_DECREF(list);
        return -1;
    }
    PyObject *plain = PyList_New(0); // names and values in turn
    for (Py_ssize_t i = 0; plain && i < PySequence_Fast_GET_SIZE(list); i++) {
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(list, i)); // its iteration may change the list
        PyObject *pair = PySequence_Fast(item, "spindle: a header field must be a pair of bytes");
        Py_DECREF(item);
        if (!pair || PySequence_Fast_GET_SIZE(pair) != 2 || !PyBytes_Check(PySequence_Fast_GET_ITEM(pair, 0)) ||
            !PyBytes_Check(PySequence_Fast_GET_ITEM(pair, 1))) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "spindle: a header field must be a pair of bytes");
            Py_CLEAR(plain);
        } else {
            PyObject *name = PySequence_Fast_GET_ITEM(pair, 0), *value = PySequence_Fast_GET_ITEM(pair, 1);
            if (check_field(PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name), PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value)) < 0 ||
                PyList_Append(plain, name) < 0 || PyList_Append(plain, value) < 0)
                Py_CLEAR(plain);
            else
                size += PyBytes_GET_SIZE(name) + PyBytes_GET_SIZE(value);
        }
        Py_XDECREF(pair);
    }
    Py_DECREF(list);
    if (!plain)
        return -1;
    Py_ssize_t n = PyList_GET_SIZE(plain) / 2;
    uint32_t count = (uint32_t)n + (protocol ? 1 : 0);
    SpindleField *field = (SpindleField *)server_out(x->server, kind, flags, x->slot, count,
                                                     count * sizeof *field + size + protocol_len);
    char *to = (char *)(field + count);
    if (protocol) {
        *field++ = (SpindleField){0, (uint32_t)protocol_len};
        memcpy(to, protocol, protocol_len);
        to += protocol_len;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyList_GET_ITEM(plain, 2 * i), *value = PyList_GET_ITEM(plain, 2 * i + 1);
        *field++ = (SpindleField){(uint32_t)PyBytes_GET_SIZE(name), (uint32_t)PyBytes_GET_SIZE(value)};
        memcpy(to, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name));
        to += PyBytes_GET_SIZE(name);
        memcpy(to, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
        to += PyBytes_GET_SIZE(value);
    }
    Py_DECREF(plain);
    return 0;
}

static int accept_it(Exchange *x, PyObject *message) {
    PyObject *headers = message_get(message, asgi.headers);
    PyObject *subprotocol = PyErr_Occurred() ? NULL : message_get(message, asgi.subprotocol);
    int r = PyErr_Occurred() ? -1 : fields_out(x, SPINDLE_ACCEPT, 0, headers, subprotocol);
    Py_XDECREF(headers);
    Py_XDECREF(subprotocol);
    if (r == 0)
        x->phase = WS_OPEN;
    return r;
}

static int deny(Exchange *x, PyObject *message) {
    int code = message_status(message);
    if (code < 0)
        return -1;
    PyObject *headers = message_get(message, asgi.headers);
    int r = PyErr_Occurred() ? -1 : fields_out(x, SPINDLE_DENY, code, headers, NULL);
    Py_XDECREF(headers);
    if (r == 0) {
        x->status = code;
        x->phase = WS_DENYING;
    }
    return r;
}

static int deny_body(Exchange *x, PyObject *message) {
    Py_buffer body;
    int more = message_flag(message, asgi.more_body);
    if (more < 0 || message_bytes(message, asgi.body, &body) < 0)
        return -1;
    if (message_fits(body.len) < 0) {
        if (body.obj)
            PyBuffer_Release(&body);
        return -1;
    }
    if (body.len > 0)
        memcpy(server_out(x->server, SPINDLE_DENY_BODY, 0, x->slot, 0, body.len), body.buf, body.len);
    if (body.obj)
        PyBuffer_Release(&body);
    if (!more) {
        server_out(x->server, SPINDLE_DENY_END, 0, x->slot, 0, 0);
        x->phase = WS_CLOSED;
        x->code = 1006;
        exchange_wake(x);
    }
    return 0;
}

static int send_message(Exchange *x, PyObject *message) {
    PyObject *bytes = message_get(message, asgi.bytes), *text = NULL;
    int r = PyErr_Occurred() ? -1 : 0;
    if (r == 0 && bytes && bytes != Py_None) {
        Py_buffer view;
        if (PyObject_GetBuffer(bytes, &view, PyBUF_SIMPLE) < 0) {
            r = -1;
        } else {
            r = message_fits(view.len);
            if (r == 0)
                memcpy(server_out(x->server, SPINDLE_SEND_BINARY, 0, x->slot, 0, view.len), view.buf, view.len);
            PyBuffer_Release(&view);
        }
    } else if (r == 0) {
        text = message_get(message, asgi.text);
        Py_ssize_t n;
        const char *utf8 = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, &n) : NULL;
        if (utf8 && message_fits(n) == 0) {
            memcpy(server_out(x->server, SPINDLE_SEND_TEXT, 0, x->slot, 0, n), utf8, n);
        } else {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "spindle: 'websocket.send' needs 'bytes' or 'text'");
            r = -1;
        }
    }
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    if (r == 0)
        outbox_limit(x);
    return r < 0 ? -1 : is_held(x);
}

static int close_it(Exchange *x, PyObject *message) {
    PyObject *code = message_get(message, asgi.code);
    long number = 1000;
    if (code && code != Py_None)
        number = PyLong_AsLong(code);
    Py_XDECREF(code);
    if (PyErr_Occurred())
        return -1;
    if (number < 0 || number > 65535) {
        PyErr_Format(PyExc_ValueError, "spindle: %ld is not a code to close a WebSocket with", number);
        return -1;
    }
    PyObject *reason = message_get(message, asgi.reason);
    if (PyErr_Occurred())
        return -1;
    Py_ssize_t n = 0;
    const char *text = reason && reason != Py_None ? PyUnicode_AsUTF8AndSize(reason, &n) : "";
    if (!text) {
        Py_XDECREF(reason);
        return -1;
    }
    memcpy(server_out(x->server, SPINDLE_CLOSE, 0, x->slot, (uint32_t)number, n), text, n);
    Py_XDECREF(reason);
    x->phase = WS_CLOSED;
    x->code = (int)number;
    exchange_wake(x);
    return 0;
}

static int deny_plainly(Exchange *x, int status) {
    if (fields_out(x, SPINDLE_DENY, status, NULL, NULL) < 0)
        return -1;
    server_out(x->server, SPINDLE_DENY_END, 0, x->slot, 0, 0);
    x->phase = WS_CLOSED;
    x->code = 1006;
    exchange_wake(x);
    return 0;
}

// websocket_end ends a WebSocket after its app has returned, or failed.
void websocket_end(Exchange *x, bool failed) {
    Server *s = x->server;
    if (!s->box || x->released)
        return;
    if (!x->gone) {
        if (x->phase == WS_CONNECTING || x->phase == WS_DENYING) {
            if (deny_plainly(x, 500) < 0) // in place of a denial that is incomplete: Go has not sent it
                PyErr_Clear();
        } else if (x->phase == WS_OPEN) {
            server_out(s, SPINDLE_CLOSE, 0, x->slot, failed ? 1011 : 1000, 0);
        }
    }
    x->phase = WS_CLOSED;
    server_release(x);
    server_out(s, SPINDLE_FINISH, 0, x->slot, 0, sizeof(SpindleEnd));
}

int websocket_send(Exchange *x, PyObject *message) {
    PyObject *type = message_type(message);
    if (!type)
        return -1;
    int r = -1;
    const char *expected = NULL;
    if (x->phase == WS_CLOSED)
        expected = "nothing more, because the WebSocket is closed";
    else if (x->gone || !x->server->box)
        PyErr_SetString(x->server->disconnected, "spindle: the client has disconnected");
    else if (x->phase == WS_CONNECTING) {
        if (same_type(type, asgi.ws_accept))
            r = accept_it(x, message);
        else if (same_type(type, asgi.ws_close))
            r = deny_plainly(x, 403);
        else if (same_type(type, asgi.ws_response_start))
            r = deny(x, message);
        else
            expected = "'websocket.accept', 'websocket.close' or 'websocket.http.response.start'";
    } else if (x->phase == WS_DENYING) {
        if (same_type(type, asgi.ws_response_body))
            r = deny_body(x, message);
        else
            expected = "'websocket.http.response.body'";
    } else if (same_type(type, asgi.ws_send)) {
        r = send_message(x, message);
    } else if (same_type(type, asgi.ws_close)) {
        r = close_it(x, message);
    } else {
        expected = "'websocket.send' or 'websocket.close'";
    }
    if (expected)
        PyErr_Format(PyExc_RuntimeError, "spindle: the app sent %R where %s was expected", type, expected);
    Py_DECREF(type);
    return r;
}
