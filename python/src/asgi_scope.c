// Makes the scope of a request.
//
// Clients send the same few fields again and again. So names are interned, and each name
// remembers the last pair of name and value that was made for it: mostly the next request
// has the same one. Values that are secret are not remembered.
#include "asgi.h"

#define NAMES 512    // a power of two
#define MOST_NAMES 192 // clients choose names, so there is a limit
#define LONGEST_NAME 64
#define LONGEST_VALUE 512 // that is remembered

static uint32_t hash_of(const char *text, size_t n) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * 16777619u;
    return h;
}

// find returns the entry of a name in lower case, NULL if it has none and gets none.
static Field *find(const char *name, size_t n) {
    struct ServerState *s = server_state();
    Field *known = s->fields;
    uint32_t i = hash_of(name, n) & (NAMES - 1);
    for (; known[i].name; i = (i + 1) & (NAMES - 1))
        if ((size_t)PyBytes_GET_SIZE(known[i].name) == n && memcmp(PyBytes_AS_STRING(known[i].name), name, n) == 0)
            return &known[i];
    if (s->field_count == MOST_NAMES || !(known[i].name = PyBytes_FromStringAndSize(name, n)))
        return NULL;
    s->field_count++;
    return &known[i];
}

static inline char lower(char c) { return c >= 'A' && c <= 'Z' ? c | 0x20 : c; }

static PyObject *new_pair(PyObject *name, const char *value, size_t m) {
    PyObject *pair = name ? PyTuple_New(2) : NULL;
    PyObject *bytes = pair ? PyBytes_FromStringAndSize(value, m) : NULL;
    if (!bytes) {
        Py_XDECREF(pair);
        return NULL;
    }
    PyTuple_SET_ITEM(pair, 0, Py_NewRef(name));
    PyTuple_SET_ITEM(pair, 1, bytes);
    return pair;
}

// field_pair returns the pair of a field. It sets *forwards for a field of a proxy.
static PyObject *field_pair(const char *name, size_t n, const char *value, size_t m, bool *forwards) {
    char buffer[LONGEST_NAME];
    if (n > LONGEST_NAME) {
        PyObject *own = PyBytes_FromStringAndSize(name, n);
        if (!own)
            return NULL;
        for (char *c = PyBytes_AS_STRING(own); *c; c++)
            *c = lower(*c);
        PyObject *pair = new_pair(own, value, m);
        Py_DECREF(own);
        return pair;
    }
    for (size_t i = 0; i < n; i++)
        buffer[i] = lower(name[i]);
    Field *entry = find(buffer, n);
    if (!entry) {
        PyErr_Clear();
        PyObject *own = PyBytes_FromStringAndSize(buffer, n);
        PyObject *pair = new_pair(own, value, m);
        Py_XDECREF(own);
        return pair;
    }
    if (entry->forwards)
        *forwards = true;
    if (entry->last) {
        PyObject *old = PyTuple_GET_ITEM(entry->last, 1);
        if ((size_t)PyBytes_GET_SIZE(old) == m && memcmp(PyBytes_AS_STRING(old), value, m) == 0)
            return Py_NewRef(entry->last);
    }
    PyObject *pair = new_pair(entry->name, value, m);
    if (pair && !entry->secret && m <= LONGEST_VALUE)
        Py_XSETREF(entry->last, Py_NewRef(pair));
    return pair;
}

// Methods and clients that were seen.

static const char *const method_names[] = {"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "CONNECT"};

static PyObject *method_of(const char *text, size_t n) {
    for (size_t i = 0; i < 8; i++)
        if (strlen(method_names[i]) == n && memcmp(method_names[i], text, n) == 0)
            return Py_NewRef(server_state()->methods[i]);
    return PyUnicode_DecodeLatin1(text, n, NULL);
}

#define CLIENTS 1024 // a power of two

static PyObject *client_of(const char *host, uint32_t n, uint32_t port) {
    if (n == 0)
        Py_RETURN_NONE;
    uint32_t i = (hash_of(host, n) ^ port * 40503u) & (CLIENTS - 1);
    Client *c = &server_state()->clients[i];
    if (c->pair && c->port == port && c->len == n && memcmp(c->host, host, n) == 0)
        return Py_NewRef(c->pair);
    PyObject *pair = Py_BuildValue("(s#I)", host, (Py_ssize_t)n, (unsigned)port);
    if (pair && n <= sizeof c->host) {
        memcpy(c->host, host, n);
        c->len = n;
        c->port = port;
        Py_XSETREF(c->pair, Py_NewRef(pair));
    }
    return pair;
}

static int hex(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// unquote decodes a path.
static PyObject *unquote(const char *path, size_t n) {
    if (!memchr(path, '%', n))
        return PyUnicode_DecodeUTF8(path, n, "replace");
    char *plain = PyMem_Malloc(n), *to = plain;
    if (!plain)
        return PyErr_NoMemory();
    for (size_t i = 0; i < n; i++) {
        if (path[i] == '%' && i + 2 < n && hex(path[i + 1]) >= 0 && hex(path[i + 2]) >= 0) {
            *to++ = (char)(hex(path[i + 1]) << 4 | hex(path[i + 2]));
            i += 2;
        } else {
            *to++ = path[i];
        }
    }
    PyObject *decoded = PyUnicode_DecodeUTF8(plain, to - plain, "replace");
    PyMem_Free(plain);
    return decoded;
}

// set stores a value in a dict and gives up the reference to it.
static int set(PyObject *dict, PyObject *key, PyObject *value) {
    int r = value ? PyDict_SetItem(dict, key, value) : -1;
    Py_XDECREF(value);
    return r;
}

// subprotocols returns what the client offers: a list of strings.
static PyObject *subprotocols(PyObject *headers) {
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(headers); i++) {
        PyObject *pair = PyList_GET_ITEM(headers, i);
        if (strcmp(PyBytes_AS_STRING(PyTuple_GET_ITEM(pair, 0)), "sec-websocket-protocol") != 0)
            continue;
        const char *at = PyBytes_AS_STRING(PyTuple_GET_ITEM(pair, 1));
        while (*at) {
            at += strspn(at, " \t,");
            size_t n = strcspn(at, " \t,");
            PyObject *name = n ? PyUnicode_DecodeLatin1(at, n, NULL) : NULL;
            if (name && PyList_Append(list, name) < 0)
                Py_CLEAR(list);
            Py_XDECREF(name);
            if (!list || PyErr_Occurred())
                break;
            at += n;
        }
    }
    return list;
}

static int set_path(Server *s, PyObject *scope, const char *path, size_t n) {
    Py_ssize_t root = PyBytes_GET_SIZE(s->root_path);
    if (root == 0)
        return set(scope, asgi.raw_path, PyBytes_FromStringAndSize(path, n)) < 0 ? -1
               : set(scope, asgi.path, unquote(path, n));
    PyObject *raw = PyBytes_FromStringAndSize(NULL, root + n);
    if (!raw)
        return -1;
    memcpy(PyBytes_AS_STRING(raw), PyBytes_AS_STRING(s->root_path), root);
    memcpy(PyBytes_AS_STRING(raw) + root, path, n);
    int r = set(scope, asgi.path, unquote(PyBytes_AS_STRING(raw), root + n));
    return set(scope, asgi.raw_path, raw) < 0 ? -1 : r;
}

PyObject *scope_new(Server *s, const SpindleRecord *r) {
    const SpindleHead *head = (const SpindleHead *)(r + 1);
    const SpindleField *fields = (const SpindleField *)(head + 1);
    const char *at = (const char *)(fields + r->n);
    bool websocket = r->flags & SPINDLE_WEBSOCKET, forwards = false;
    PyObject *common = websocket ? s->websocket_scope : s->http_scope, *scope = PyDict_Copy(common);
    PyObject *headers = PyList_New(r->n);
    if (!scope || !headers)
        goto failed;
    // The app may change its scope. The dicts in extensions cannot be changed.
    if (set(scope, asgi.asgi_, PyDict_Copy(PyDict_GetItem(common, asgi.asgi_))) < 0 ||
        set(scope, asgi.extensions, PyDict_Copy(PyDict_GetItem(common, asgi.extensions))) < 0)
        goto failed;
    const char *method = at, *path = method + head->method, *query = path + head->path, *remote = query + head->query;
    at = remote + head->remote;
    for (uint32_t i = 0; i < r->n; i++) {
        PyObject *pair = field_pair(at, fields[i].name, at + fields[i].name, fields[i].value, &forwards);
        if (!pair)
            goto failed;
        PyList_SET_ITEM(headers, i, pair);
        at += fields[i].name + fields[i].value;
    }
    if (websocket ? set(scope, asgi.subprotocols, subprotocols(headers)) < 0
                  : set(scope, asgi.method, method_of(method, head->method)) < 0)
        goto failed;
    if (set_path(s, scope, path, head->path) < 0 ||
        set(scope, asgi.query_string, head->query ? PyBytes_FromStringAndSize(query, head->query) : Py_NewRef(asgi.empty)) < 0 ||
        PyDict_SetItem(scope, asgi.headers, headers) < 0 ||
        set(scope, asgi.client, client_of(remote, head->remote, head->port)) < 0)
        goto failed;
    if (r->flags & (SPINDLE_HTTP10 | SPINDLE_HTTP2) &&
        PyDict_SetItem(scope, asgi.http_version, r->flags & SPINDLE_HTTP2 ? asgi.version_2 : asgi.version_10) < 0)
        goto failed;
    if (s->state && set(scope, asgi.state, PyDict_Copy(s->state)) < 0)
        goto failed;
    if (forwards && s->proxy) {
        PyObject *done = PyObject_CallOneArg(s->proxy, scope);
        Py_XDECREF(done);
        if (!done)
            goto failed;
    }
    Py_DECREF(headers);
    return scope;
failed:
    Py_XDECREF(scope);
    Py_XDECREF(headers);
    return NULL;
}

PyObject *scope_name(const SpindleRecord *r) {
    const SpindleHead *head = (const SpindleHead *)(r + 1);
    const char *method = (const char *)((const SpindleField *)(head + 1) + r->n);
    size_t n = head->method + 1 + head->path;
    char small[256], *text = n <= sizeof small ? small : PyMem_Malloc(n);
    if (!text)
        return PyErr_NoMemory();
    memcpy(text, method, head->method);
    text[head->method] = ' ';
    memcpy(text + head->method + 1, method + head->method, head->path);
    PyObject *name = PyUnicode_DecodeLatin1(text, n, NULL);
    if (text != small)
        PyMem_Free(text);
    return name;
}

int scope_init(void) {
    static const struct {
        const char *name;
        bool secret, forwards;
    } special[] = {
        {"authorization", true, false},    {"cookie", true, false},           {"proxy-authorization", true, false},
        {"x-api-key", true, false},        {"x-forwarded-for", false, true},  {"x-forwarded-proto", false, true},
        {"sec-websocket-key", true, false}, {"x-csrf-token", true, false},
        {"spindle-mount", false, true}, // of the Go package pyapp
    };
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        Field *entry = find(special[i].name, strlen(special[i].name));
        if (!entry)
            return -1;
        entry->secret = special[i].secret;
        entry->forwards = special[i].forwards;
    }
    for (size_t i = 0; i < 8; i++)
        if (!(server_state()->methods[i] = PyUnicode_InternFromString(method_names[i])))
            return -1;
    return 0;
}

void scope_free(struct ServerState *s) {
    for (size_t i = 0; i < NAMES; i++) {
        Py_XDECREF(s->fields[i].name);
        Py_XDECREF(s->fields[i].last);
    }
    for (size_t i = 0; i < CLIENTS; i++)
        Py_XDECREF(s->clients[i].pair);
    for (size_t i = 0; i < 8; i++)
        Py_XDECREF(s->methods[i]);
}
