// The outbox: records for Go. Large pieces of bodies are not copied into it. Their bytes
// objects are lent to Go until it has taken the records, which it does before the next poll.
#include "asgi.h"

// Bytes that are passed to Go before more are added.
#define FLUSH_COPIED (64 * 1024)    // in the outbox
#define FLUSH_LENT (256 * 1024)     // of objects that are lent, at first
#define FLUSH_LENT_SLOW (64 * 1024) // for a client that reads slowly: Go copies what the socket does not take
#define FLUSH_LENT_MOST (1024 * 1024)

static int (*go_flush)(int loop);

int outbox_load(void) { return golib_symbol("SpindleFlush", (void **)&go_flush); }

// reserve makes the outbox end at a position and returns its data.
static char *reserve(Server *s, size_t end) {
    SpindleBuffer *out = &s->box->out;
    if (end > out->cap) {
        size_t cap = out->cap * 2 > end ? out->cap * 2 : end < 64 * 1024 ? 64 * 1024 : end;
        char *data = realloc(out->data, cap); // Go frees it
        if (!data)
            Py_FatalError("spindle: out of memory");
        out->data = data;
        out->cap = cap;
    }
    out->len = end;
    return out->data;
}

static inline size_t aligned(size_t n) { return (n + 7) & ~(size_t)7; }

// server_out reserves a record in the outbox and returns its payload.
char *server_out(Server *s, int kind, int flags, uint32_t slot, uint32_t n, size_t payload) {
    size_t size = sizeof(SpindleRecord) + payload, at = s->box->out.len;
    SpindleRecord *r = (SpindleRecord *)(reserve(s, at + aligned(size)) + at);
    *r = (SpindleRecord){.size = (uint32_t)size, .kind = (uint16_t)kind, .flags = (uint16_t)flags, .slot = slot, .n = n};
    s->last_record = at;
    return (char *)(r + 1);
}

// server_answer reserves bytes of a response: in the last record if it is of the same
// response and both are small.
char *server_answer(Server *s, uint32_t slot, size_t n) {
    SpindleBuffer *out = &s->box->out;
    SpindleRecord *r = out->len > 0 ? (SpindleRecord *)(out->data + s->last_record) : NULL;
    if (!r || r->kind != SPINDLE_ANSWER || r->slot != slot || r->size + n > 4096)
        return server_out(s, SPINDLE_ANSWER, 0, slot, 0, n);
    size_t size = r->size;
    r = (SpindleRecord *)(reserve(s, s->last_record + aligned(size + n)) + s->last_record);
    r->size = (uint32_t)(size + n);
    return (char *)r + size;
}

// server_lend adds a record that refers to a bytes object. It reports whether there was
// memory for that; otherwise the bytes have to be copied.
bool server_lend(Server *s, uint32_t slot, PyObject *bytes) {
    if (s->lent_len == s->lent_cap) {
        size_t cap = s->lent_cap ? 2 * s->lent_cap : 64;
        PyObject **lent = PyMem_Realloc(s->lent, cap * sizeof *lent);
        if (!lent)
            return false;
        s->lent = lent;
        s->lent_cap = cap;
    }
    s->lent[s->lent_len++] = Py_NewRef(bytes);
    s->lent_bytes += PyBytes_GET_SIZE(bytes);
    SpindlePiece *piece = (SpindlePiece *)server_out(s, SPINDLE_PIECE, 0, slot, 0, sizeof *piece);
    *piece = (SpindlePiece){PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes)};
    return true;
}

// outbox_taken gives up what was lent, after Go has taken the records.
void outbox_taken(Server *s) {
    while (s->lent_len > 0)
        Py_DECREF(s->lent[--s->lent_len]); // bytes: runs no other code
    s->lent_bytes = 0;
}

void server_flush(Server *s) {
    if (s->box && s->box->out.len > 0) {
        int r = go_flush(s->loop->id);
        if (r < 0) {
            golib_raise(r);
            PyErr_WriteUnraisable((PyObject *)s);
        }
        outbox_taken(s);
    }
}

// outbox_limit passes an outbox that has become large to Go, so that an app which never
// waits cannot fill it. More is sent at a time to a client that takes everything.
void outbox_limit(Exchange *x) {
    Server *s = x->server;
    Py_ssize_t most = x->lend_most ? x->lend_most : FLUSH_LENT;
    if (s->box->out.len < FLUSH_COPIED && s->lent_bytes < most)
        return;
    server_flush(s);
    x->lend_most = is_held(x) ? FLUSH_LENT_SLOW : most < FLUSH_LENT_MOST ? (uint32_t)(2 * most) : FLUSH_LENT_MOST;
}
