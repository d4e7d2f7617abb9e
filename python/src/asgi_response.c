// Writes the head of a response, and decides how its body is framed.
#include "asgi.h"
#include <stdio.h>
#include <strings.h>

#define SKIP_LIMIT (256 * 1024) // how much of a body Go skips to reach the next request

int head_append(Exchange *x, const char *data, size_t len) {
    if (x->head_len + len > x->head_cap) {
        size_t cap = x->head_cap ? x->head_cap * 2 : 512;
        while (cap < x->head_len + len)
            cap *= 2;
        char *head = PyMem_Realloc(x->head, cap);
        if (!head) {
            PyErr_NoMemory();
            return -1;
        }
        x->head = head;
        x->head_cap = cap;
    }
    memcpy(x->head + x->head_len, data, len);
    x->head_len += len;
    return 0;
}

static bool in_token[256], in_value[256];

// Before the module is initialized: several interpreters may use them at once.
__attribute__((constructor)) static void init_tables(void) {
    for (int c = 0; c < 256; c++) {
        in_token[c] = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      (c && strchr("!#$%&'*+-.^_`|~", c));
        in_value[c] = c == '\t' || (c >= ' ' && c != 127);
    }
}

int check_field(const char *name, Py_ssize_t n, const char *value, Py_ssize_t m) {
    bool good = n > 0;
    for (Py_ssize_t i = 0; i < n; i++)
        good &= in_token[(unsigned char)name[i]];
    if (!good) {
        PyErr_SetString(PyExc_ValueError, "spindle: the name of a header field is empty or has a character that is not allowed");
        return -1;
    }
    for (Py_ssize_t i = 0; i < m; i++)
        good &= in_value[(unsigned char)value[i]];
    if (!good) {
        PyErr_Format(PyExc_ValueError, "spindle: the value of header field %.100s has a control character", name);
        return -1;
    }
    return 0;
}

static bool is_name(const char *name, Py_ssize_t n, const char *lower) {
    return (size_t)n == strlen(lower) && strncasecmp(name, lower, n) == 0;
}

// has_token reports whether a list of tokens contains one.
static bool has_token(const char *value, Py_ssize_t m, const char *token) {
    size_t t = strlen(token);
    for (const char *at = value, *end = value + m; at < end;) {
        while (at < end && (*at == ' ' || *at == '\t' || *at == ','))
            at++;
        const char *from = at;
        while (at < end && *at != ',' && *at != ' ' && *at != '\t')
            at++;
        if ((size_t)(at - from) == t && strncasecmp(from, token, t) == 0)
            return true;
    }
    return false;
}

static int declare_length(Exchange *x, const char *value, Py_ssize_t m) {
    int64_t n = 0;
    bool good = m > 0 && m < 19;
    for (Py_ssize_t i = 0; good && i < m; i++) {
        good = value[i] >= '0' && value[i] <= '9';
        n = n * 10 + (value[i] - '0');
    }
    if (!good || (x->declared >= 0 && x->declared != n)) {
        PyErr_SetString(PyExc_ValueError, "spindle: content-length is not a number, or was given twice");
        return -1;
    }
    x->declared = n;
    return 0;
}

enum { FIELD_WRITE = 0, FIELD_SKIP = 1 };

// note_field notes what a field says. It returns FIELD_SKIP if the server writes the field
// itself.
static int note_field(Exchange *x, const char *name, Py_ssize_t n, const char *value, Py_ssize_t m) {
    bool lines = !on_stream(x); // a stream has no fields about the connection
    switch (n) {
    case 4:
        x->dated |= is_name(name, n, "date");
        break;
    case 6:
        x->named |= is_name(name, n, "server");
        break;
    case 7:
        if (is_name(name, n, "trailer") && !(x->flags & SPINDLE_TRAILERS))
            return FIELD_SKIP; // the trailers are left out
        return lines || !is_name(name, n, "upgrade") ? FIELD_WRITE : FIELD_SKIP;
    case 10:
        if (is_name(name, n, "connection")) {
            x->closes |= lines && has_token(value, m, "close");
            return lines && has_token(value, m, "upgrade") ? FIELD_WRITE : FIELD_SKIP;
        }
        return lines || !is_name(name, n, "keep-alive") ? FIELD_WRITE : FIELD_SKIP;
    case 14:
        if (is_name(name, n, "content-length")) {
            if (declare_length(x, value, m) < 0)
                return -1;
            return FIELD_SKIP;
        }
        break;
    case 16:
        return lines || !is_name(name, n, "proxy-connection") ? FIELD_WRITE : FIELD_SKIP;
    case 17:
        if (is_name(name, n, "transfer-encoding")) {
            x->chunked |= has_token(value, m, "chunked");
            return FIELD_SKIP;
        }
        break;
    }
    return FIELD_WRITE;
}

static int write_field(Exchange *x, PyObject *pair, bool trailers) {
    PyObject *items = PySequence_Fast(pair, "spindle: a header field must be a pair of bytes");
    if (!items)
        return -1;
    int r = -1;
    PyObject **item = PySequence_Fast_ITEMS(items);
    if (PySequence_Fast_GET_SIZE(items) != 2 || !PyBytes_Check(item[0]) || !PyBytes_Check(item[1])) {
        PyErr_SetString(PyExc_TypeError, "spindle: a header field must be a pair of bytes");
        goto done;
    }
    const char *name = PyBytes_AS_STRING(item[0]), *value = PyBytes_AS_STRING(item[1]);
    Py_ssize_t n = PyBytes_GET_SIZE(item[0]), m = PyBytes_GET_SIZE(item[1]);
    if (check_field(name, n, value, m) < 0)
        goto done;
    r = note_field(x, name, n, value, m);
    if (r == FIELD_WRITE && (head_append(x, name, n) < 0 || head_append(x, ": ", 2) < 0 ||
                             head_append(x, value, m) < 0 || head_append(x, "\r\n", 2) < 0))
        r = -1;
    if (trailers && r == FIELD_SKIP) {
        PyErr_Format(PyExc_ValueError, "spindle: header field %.100s cannot be a trailer", name);
        r = -1;
    }
done:
    Py_DECREF(items);
    return r < 0 ? -1 : 0;
}

int head_fields(Exchange *x, PyObject *headers, bool trailers) {
    PyObject *list = PySequence_Fast(headers, "spindle: 'headers' of a message must be a list of pairs");
    if (!list)
        return -1;
    int r = 0;
    for (Py_ssize_t i = 0; r == 0 && i < PySequence_Fast_GET_SIZE(list); i++) {
        PyObject *pair = Py_NewRef(PySequence_Fast_GET_ITEM(list, i)); // its iteration may change the list
        r = write_field(x, pair, trailers);
        Py_DECREF(pair);
    }
    Py_DECREF(list);
    return r;
}

static const char *reason_of(int status) {
    static const struct {
        int status;
        const char *reason;
    } all[] = {
        {200, "OK"}, {201, "Created"}, {202, "Accepted"}, {204, "No Content"}, {206, "Partial Content"},
        {301, "Moved Permanently"}, {302, "Found"}, {303, "See Other"}, {304, "Not Modified"},
        {307, "Temporary Redirect"}, {308, "Permanent Redirect"}, {400, "Bad Request"}, {401, "Unauthorized"},
        {402, "Payment Required"}, {403, "Forbidden"}, {404, "Not Found"}, {405, "Method Not Allowed"},
        {406, "Not Acceptable"}, {408, "Request Timeout"}, {409, "Conflict"}, {410, "Gone"},
        {411, "Length Required"}, {412, "Precondition Failed"}, {413, "Content Too Large"},
        {414, "URI Too Long"}, {415, "Unsupported Media Type"}, {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"}, {418, "I'm a Teapot"}, {421, "Misdirected Request"},
        {422, "Unprocessable Content"}, {423, "Locked"}, {424, "Failed Dependency"}, {425, "Too Early"},
        {426, "Upgrade Required"}, {428, "Precondition Required"}, {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"}, {451, "Unavailable For Legal Reasons"},
        {500, "Internal Server Error"}, {501, "Not Implemented"}, {502, "Bad Gateway"},
        {503, "Service Unavailable"}, {504, "Gateway Timeout"}, {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"}, {511, "Network Authentication Required"}, {203, "Non-Authoritative Information"},
        {205, "Reset Content"}, {207, "Multi-Status"}, {208, "Already Reported"}, {226, "IM Used"}, {300, "Multiple Choices"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].status == status)
            return all[i].reason;
    return "";
}

// head_start writes status and fields of http.response.start. The fields that depend on
// the body are written by head_commit.
int head_start(Exchange *x, PyObject *message) {
    Server *s = x->server;
    int code = message_status(message);
    if (code < 0)
        return -1;
    int trailers = message_flag(message, asgi.trailers);
    if (trailers < 0)
        return -1;
    x->status = code;
    x->trailers = trailers;
    x->head_len = 0;
    x->declared = -1;
    x->chunked = x->closes = false;
    x->dated = !s->dates;
    x->named = false;
    char line[80];
    int n = code == 200 ? 17 : snprintf(line, sizeof line, "HTTP/1.1 %d %s\r\n", code, reason_of(code));
    if (!on_stream(x) && head_append(x, code == 200 ? "HTTP/1.1 200 OK\r\n" : line, n) < 0)
        return -1;
    PyObject *headers = message_get(message, asgi.headers);
    if (!headers && PyErr_Occurred())
        return -1;
    int r = headers ? head_fields(x, headers, false) : 0;
    Py_XDECREF(headers);
    if (r < 0)
        return -1;
    if (!x->dated) {
        const char *date = server_date(s);
        r = head_append(x, date, strlen(date));
    }
    if (r == 0 && !x->named)
        r = head_append(x, PyBytes_AS_STRING(s->name), PyBytes_GET_SIZE(s->name));
    if (r == 0)
        r = head_append(x, PyBytes_AS_STRING(s->fields), PyBytes_GET_SIZE(s->fields));
    return r;
}

// answer_error answers a request with an error of the server itself, and ends its connection or stream. Go may
// then give the slot to another request.
void answer_error(Server *s, uint32_t slot, int status, bool to_head, bool stream) {
    char line[80], rest[128];
    const char *reason = reason_of(status), *date = s->dates ? server_date(s) : "";
    size_t body = to_head ? 0 : strlen(reason), name = PyBytes_GET_SIZE(s->name), fields = PyBytes_GET_SIZE(s->fields);
    size_t n = stream ? 0 : snprintf(line, sizeof line, "HTTP/1.1 %d %s\r\n", status, reason), dated = strlen(date);
    size_t m = snprintf(rest, sizeof rest, "content-type: text/plain; charset=utf-8\r\ncontent-length: %zu\r\n%s",
                        strlen(reason), stream ? "" : "connection: close\r\n\r\n");
    char *to = server_out(s, stream ? SPINDLE_HEAD : SPINDLE_ANSWER, stream && body == 0 ? SPINDLE_ENDS : 0, slot,
                          stream ? (uint32_t)status : 0, n + dated + name + fields + m);
    memcpy(to, line, n);
    memcpy(to += n, date, dated);
    memcpy(to += dated, PyBytes_AS_STRING(s->name), name);
    memcpy(to += name, PyBytes_AS_STRING(s->fields), fields);
    memcpy(to + fields, rest, m);
    if (body > 0)
        memcpy(server_answer(s, slot, body), reason, body);
    SpindleEnd *end = (SpindleEnd *)server_out(s, SPINDLE_FINISH, stream ? 0 : SPINDLE_CLOSES, slot, (uint32_t)status, sizeof *end);
    end->bytes = (int64_t)body;
}

// leaves_body reports whether the connection must close because the request's body was not
// read and is too long to skip, or may never come.
static bool leaves_body(Exchange *x) {
    if (x->complete)
        return false;
    return x->length < 0 || (x->flags & SPINDLE_EXPECTS && !x->continued) || x->length - x->received > SKIP_LIMIT;
}

// put and put_number append to a text and return its end. Every response needs them, and sprintf takes longer than
// all other code that writes a head.
static inline char *put(char *end, const char *text) {
    size_t n = strlen(text);
    memcpy(end, text, n);
    return end + n;
}

// put_number appends a number that is not negative, and the end of a line.
static char *put_number(char *end, int64_t n) {
    char digits[20];
    int len = 0;
    do
        digits[len++] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    while (len > 0)
        *end++ = digits[--len];
    return put(end, "\r\n");
}

// head_commit completes the head. first is the length of the first piece of the body; more
// says that others follow. Memory for what it appends was reserved by head_start, nearly
// always; where it was not, the connection closes.
void head_commit(Exchange *x, Py_ssize_t first, bool more) {
    char text[128], *end = text;
    bool old = x->flags & SPINDLE_HTTP10, bodyless = x->status == 204 || x->status == 304;
    x->framing = FRAME_NONE;
    if (bodyless) {
        if (x->status == 204)
            x->declared = -1; // such a response must not have a length
    } else if (x->declared >= 0 && (!x->trailers || on_stream(x))) {
        x->framing = FRAME_LENGTH;
    } else if (!more && !x->chunked && !x->trailers && !(x->to_head && first == 0)) {
        x->framing = FRAME_LENGTH;
        x->declared = first;
    } else if (on_stream(x)) {
        x->framing = FRAME_END;
    } else if (old) {
        x->framing = FRAME_END;
        x->closes = true;
    } else {
        x->framing = FRAME_CHUNKS;
        x->declared = -1;
    }
    if (x->declared >= 0)
        end = put_number(put(end, "content-length: "), x->declared);
    else if (x->framing == FRAME_CHUNKS)
        end = put(end, "transfer-encoding: chunked\r\n");
    x->head_ready = on_stream(x);
    if (!on_stream(x)) {
        if (!(x->flags & SPINDLE_PERSISTS) || !(x->flags & SPINDLE_KEEPALIVE) || x->server->draining || leaves_body(x))
            x->closes = true;
        if (x->closes || old)
            end = put(end, x->closes ? "connection: close\r\n" : "connection: keep-alive\r\n");
        end = put(end, "\r\n");
    }
    if (head_append(x, text, end - text) < 0) {
        PyErr_Clear();
        x->closes = true;
    }
}
