// receive and send of a request: the messages of ASGI's HTTP protocol and their order.
#include "asgi.h"
#include <stdio.h>
#include <sys/stat.h>

#define LEND_FROM (8 * 1024) // bytes of a piece that is lent to Go and not copied

static PyObject *request_message(PyObject *body, bool more) {
    PyObject *message = PyDict_New();
    if (message && (PyDict_SetItem(message, asgi.type, asgi.request) < 0 || PyDict_SetItem(message, asgi.body, body) < 0 ||
                    PyDict_SetItem(message, asgi.more_body, more ? Py_True : Py_False) < 0))
        Py_CLEAR(message);
    return message;
}

// http_receive returns the next part of the body, or http.disconnect once the client is
// gone or the response is complete.
PyObject *http_receive(Exchange *x) {
    if (x->body || (x->complete && !x->delivered)) {
        PyObject *body = x->body ? x->body : Py_NewRef(asgi.empty);
        x->body = NULL;
        bool more = !x->complete;
        if (!more)
            x->delivered = true;
        // The window of a connection is shared by its streams, so the end of a body matters too.
        if ((more || (on_stream(x) && PyBytes_GET_SIZE(body) > 0)) && !x->released && x->server->box)
            server_out(x->server, SPINDLE_CONSUMED, 0, x->slot, (uint32_t)PyBytes_GET_SIZE(body), 0);
        PyObject *message = request_message(body, more);
        Py_DECREF(body);
        return message;
    }
    if (x->gone || x->phase == RESPONSE_DONE) {
        x->told = x->gone;
        PyObject *message = PyDict_New();
        if (message && PyDict_SetItem(message, asgi.type, asgi.disconnect) < 0)
            Py_CLEAR(message);
        return message;
    }
    if (x->flags & SPINDLE_EXPECTS && !x->continued && !x->complete && x->phase < RESPONSE_BODY && x->server->box) {
        x->continued = true;
        server_out(x->server, SPINDLE_CONTINUE, 0, x->slot, 0, 0);
    }
    return NULL;
}

static int unexpected(PyObject *type, const char *expected) {
    PyErr_Format(PyExc_RuntimeError, "spindle: the app sent %R where %s was expected", type, expected);
    return -1;
}

// pass_head puts the head of a response on a stream into the outbox. ends says that there is no body.
static void pass_head(Exchange *x, bool ends) {
    char *to = server_out(x->server, SPINDLE_HEAD, ends ? SPINDLE_ENDS : 0, x->slot, (uint32_t)x->status, x->head_len);
    if (x->head_len > 0)
        memcpy(to, x->head, x->head_len);
    x->head_len = 0;
    x->head_ready = false;
}

#define CHUNK_SIZE 18 // of its line, at most

// chunk_size writes the line before a chunk, and returns its length. Streams need it for every piece, and sprintf is slow.
static size_t chunk_size(char *line, size_t len) {
    char digits[16];
    size_t n = 0, at = 0;
    for (; len > 0; len >>= 4)
        digits[n++] = "0123456789abcdef"[len & 15];
    while (n > 0)
        line[at++] = digits[--n];
    line[at++] = '\r';
    line[at++] = '\n';
    return at;
}

// write_out puts bytes of the response into the outbox: the head if it was not sent, and a
// piece of the body. last says that it is the end. The piece is lent if it is a large bytes
// object; other objects can change before they are sent.
static void write_out(Exchange *x, const Py_buffer *body, bool last) {
    Server *s = x->server;
    size_t len = x->to_head || x->framing == FRAME_NONE ? 0 : (size_t)body->len;
    bool chunks = x->framing == FRAME_CHUNKS && !x->to_head;
    char size[CHUNK_SIZE];
    size_t size_len = chunks && len > 0 ? chunk_size(size, len) : 0;
    const char *end = !chunks ? "" : last && !x->trailers ? (len > 0 ? "\r\n0\r\n\r\n" : "0\r\n\r\n") : len > 0 ? "\r\n" : "";
    size_t end_len = strlen(end), before = x->head_len + size_len;
    bool lend = len >= LEND_FROM && PyBytes_CheckExact(body->obj);
    if (x->head_ready) {
        pass_head(x, last && len == 0 && !x->trailers);
        before = 0;
    }
    if (before + len + end_len == 0)
        return;
    char *to = server_answer(s, x->slot, lend ? before : before + len + end_len);
    if (x->head_len > 0)
        memcpy(to, x->head, x->head_len);
    memcpy(to + x->head_len, size, size_len);
    x->head_len = 0;
    to += before;
    if (lend) {
        lend = server_lend(s, x->slot, body->obj);
        to = server_answer(s, x->slot, lend ? end_len : len + end_len);
    }
    if (!lend && len > 0) {
        memcpy(to, body->buf, len);
        to += len;
    }
    memcpy(to, end, end_len);
}

void http_send_head(Exchange *x) {
    heads_remove(x);
    if (!x->server->box || x->lost)
        return;
    head_commit(x, 0, true);
    x->phase = RESPONSE_BODY;
    x->head_alone = true;
    write_out(x, &(Py_buffer){.len = 0}, false);
}

static void finish(Exchange *x) {
    x->phase = RESPONSE_DONE;
    exchange_wake(x); // receive returns http.disconnect
    if (x->lost)
        return;
    server_release(x);
    SpindleEnd *end = (SpindleEnd *)server_out(x->server, SPINDLE_FINISH, x->closes ? SPINDLE_CLOSES : 0, x->slot,
                                               (uint32_t)x->status, sizeof *end);
    end->bytes = x->to_head || x->framing == FRAME_NONE ? 0 : x->written;
}

static int count_body(Exchange *x, Py_ssize_t len, bool more) {
    if (x->framing != FRAME_LENGTH || x->to_head) {
        x->written += len;
        return 0;
    }
    if (x->written + len > x->declared) {
        PyErr_SetString(PyExc_RuntimeError, "spindle: the response's body is longer than its content-length");
        return -1;
    }
    if (!more && x->written + len < x->declared) {
        PyErr_SetString(PyExc_RuntimeError, "spindle: the response's body is shorter than its content-length");
        return -1;
    }
    x->written += len;
    return 0;
}

static int send_body(Exchange *x, PyObject *message) {
    Py_buffer body;
    int more = message_flag(message, asgi.more_body);
    if (more < 0 || message_bytes(message, asgi.body, &body) < 0)
        return -1;
    size_t head_len = x->head_len;
    int r = message_fits(body.len);
    if (r < 0)
        goto done;
    if (x->phase == RESPONSE_STARTED)
        head_commit(x, body.len, more || x->trailers);
    if (count_body(x, body.len, more) < 0) {
        x->head_len = head_len; // the app may try again
        r = -1;
        goto done;
    }
    heads_remove(x);
    x->head_alone = false;
    x->phase = more ? RESPONSE_BODY : x->trailers ? RESPONSE_TRAILERS : RESPONSE_DONE;
    if (more)
        outbox_limit(x); // before the piece, so that the last piece and the end go together
    write_out(x, &body, !more);
    if (x->phase == RESPONSE_DONE)
        finish(x);
    r = more && is_held(x);
done:
    if (body.obj)
        PyBuffer_Release(&body);
    return r;
}

static int send_trailers(Exchange *x, PyObject *message) {
    int more = message_flag(message, asgi.more_trailers);
    PyObject *headers = more < 0 ? NULL : message_get(message, asgi.headers);
    if (more < 0 || (!headers && PyErr_Occurred()))
        return -1;
    if ((x->framing == FRAME_CHUNKS || (on_stream(x) && x->framing != FRAME_NONE)) && !x->to_head) {
        size_t head_len = x->head_len;
        if (headers && head_fields(x, headers, true) < 0) {
            x->head_len = head_len; // the app may try again
            Py_DECREF(headers);
            return -1;
        }
        if (!(x->flags & SPINDLE_TRAILERS))
            x->head_len = head_len; // nothing would read them
        if (!more && on_stream(x)) {
            memcpy(server_out(x->server, SPINDLE_TRAIL, 0, x->slot, 0, x->head_len), x->head, x->head_len);
            x->head_len = 0;
        } else if (!more) {
            char *to = server_answer(x->server, x->slot, x->head_len + 5);
            memcpy(to, "0\r\n", 3);
            memcpy(to + 3, x->head, x->head_len);
            memcpy(to + 3 + x->head_len, "\r\n", 2);
            x->head_len = 0;
        }
    }
    Py_XDECREF(headers);
    if (!more)
        finish(x);
    return 0;
}

static void answer_text(Exchange *x, const char *format, long long number) {
    char text[32];
    int n = snprintf(text, sizeof text, format, number);
    memcpy(server_answer(x->server, x->slot, n), text, n);
}

// send_path sends a file as the body.
static int send_path(Exchange *x, PyObject *message) {
    PyObject *path = message_get(message, asgi.path), *encoded = NULL;
    if (!path) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_KeyError, "path");
        return -1;
    }
    int r = PyUnicode_FSConverter(path, &encoded) ? 0 : -1;
    Py_DECREF(path);
    if (r < 0)
        return -1;
    struct stat info;
    if (stat(PyBytes_AS_STRING(encoded), &info) < 0 || !S_ISREG(info.st_mode)) {
        PyErr_Format(PyExc_FileNotFoundError, "spindle: %s is not a file that can be sent", PyBytes_AS_STRING(encoded));
        Py_DECREF(encoded);
        return -1;
    }
    size_t head_len = x->head_len;
    bool chunked = x->chunked, trailers = x->trailers;
    x->chunked = x->trailers = false; // the length is known
    if (!x->head_alone)
        head_commit(x, info.st_size, false);
    if (count_body(x, info.st_size, false) < 0) {
        x->head_len = head_len; // the app may try again
        x->chunked = chunked;
        x->trailers = trailers;
        Py_DECREF(encoded);
        return -1;
    }
    bool chunks = x->framing == FRAME_CHUNKS && !x->to_head, sends = !x->to_head && x->framing != FRAME_NONE && info.st_size > 0;
    if (!x->head_alone)
        write_out(x, &(Py_buffer){.len = 0}, !sends);
    else if (chunks && sends)
        answer_text(x, "%llx\r\n", (long long)info.st_size);
    if (sends) {
        size_t n = PyBytes_GET_SIZE(encoded);
        SpindleFile *file = (SpindleFile *)server_out(x->server, SPINDLE_FILE, 0, x->slot, 0, sizeof *file + n);
        file->size = info.st_size;
        memcpy(file + 1, PyBytes_AS_STRING(encoded), n);
    }
    if (chunks)
        answer_text(x, sends ? "\r\n0\r\n\r\n" : "0\r\n\r\n", 0);
    Py_DECREF(encoded);
    finish(x);
    return 0;
}

// send_hints sends an interim response. A head that waits for its body stays in x->head.
static int send_hints(Exchange *x, PyObject *message) {
    if (x->flags & SPINDLE_HTTP10)
        return 0; // such a client does not know interim responses
    PyObject *links = message_get(message, asgi.links);
    if (!links)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *list = PySequence_Fast(links, "spindle: 'links' of a message must be a list of bytes");
    Py_DECREF(links);
    if (!list)
        return -1;
    size_t before = x->phase == RESPONSE_STARTED ? x->head_len : 0;
    x->head_len = before;
    int r = on_stream(x) ? 0 : head_append(x, "HTTP/1.1 103 Early Hints\r\n", 26);
    for (Py_ssize_t i = 0; r == 0 && i < PySequence_Fast_GET_SIZE(list); i++) {
        PyObject *link = PySequence_Fast_GET_ITEM(list, i);
        if (!PyBytes_Check(link)) {
            PyErr_SetString(PyExc_TypeError, "spindle: 'links' of a message must be a list of bytes");
            r = -1;
        } else if (check_field("link", 4, PyBytes_AS_STRING(link), PyBytes_GET_SIZE(link)) < 0 ||
                   head_append(x, "link: ", 6) < 0 ||
                   head_append(x, PyBytes_AS_STRING(link), PyBytes_GET_SIZE(link)) < 0 || head_append(x, "\r\n", 2) < 0)
            r = -1;
    }
    Py_DECREF(list);
    if (r < 0 || (!on_stream(x) && head_append(x, "\r\n", 2) < 0)) {
        x->head_len = before;
        return -1;
    }
    size_t len = x->head_len - before;
    char *to = on_stream(x) ? server_out(x->server, SPINDLE_HEAD, 0, x->slot, 103, len) : server_answer(x->server, x->slot, len);
    memcpy(to, x->head + before, len);
    x->head_len = before;
    return 0;
}

int http_send(Exchange *x, PyObject *message) {
    PyObject *type = message_type(message);
    if (!type)
        return -1;
    int r;
    if (x->phase == RESPONSE_DONE)
        r = unexpected(type, "nothing more, because the response is complete");
    else if (x->lost || !x->server->box) {
        PyErr_SetString(x->server->disconnected, "spindle: the client has disconnected");
        r = -1;
    } else if (x->phase == RESPONSE_NONE) {
        if (same_type(type, asgi.response_start)) {
            if ((r = head_start(x, message)) == 0) {
                x->phase = RESPONSE_STARTED;
                heads_add(x);
            }
        } else if (same_type(type, asgi.early_hint))
            r = send_hints(x, message);
        else
            r = unexpected(type, "'http.response.start'");
    } else if (x->phase == RESPONSE_TRAILERS) {
        r = same_type(type, asgi.response_trailers) ? send_trailers(x, message) : unexpected(type, "'http.response.trailers'");
    } else if (same_type(type, asgi.response_body)) {
        r = send_body(x, message);
    } else if (same_type(type, asgi.early_hint) && (x->phase == RESPONSE_STARTED || x->head_alone)) {
        r = x->head_alone ? 0 : send_hints(x, message); // the app cannot know that its head was sent
    } else if (same_type(type, asgi.pathsend) && (x->phase == RESPONSE_STARTED || x->head_alone)) {
        r = send_path(x, message);
    } else {
        r = unexpected(type, "'http.response.body'");
    }
    Py_DECREF(type);
    return r;
}
