// The server: what its C files offer to one another. docs/design/025-python-server.md
// describes it.
//
// Go parses requests and passes them in the mailbox (mailbox.h). After each poll
// server_deliver reads the inbox, makes an Exchange of each request and starts the app.
// Everything here is guarded by the GIL and used on the loop's thread.
#ifndef SPINDLE_ASGI_H
#define SPINDLE_ASGI_H

#include "core.h"
#include "../libspindle/mailbox.h"

typedef struct Server Server;
typedef struct Exchange Exchange;

// asgi_server.c
struct Server {
    PyObject_HEAD
    Loop *loop;
    unsigned long thread; // of the loop; only it may use the mailbox
    SpindleMailbox *box;  // NULL when the loop was closed
    PyObject *app;
    PyObject *http_scope, *websocket_scope; // what all scopes have in common
    PyObject *root_path;                    // bytes
    PyObject *state;                        // of lifespan; NULL if it has none
    PyObject *awaiting;                     // makes a coroutine of any awaitable
    PyObject *report;                       // called with an exchange's failure
    PyObject *event;                        // called with the name of an event
    PyObject *proxy;                        // called with a scope that has forwarding fields
    PyObject *disconnected;                 // the exception of sending to a lost client
    PyObject *name;                         // bytes: the field Server as a line, or empty
    PyObject *fields;                       // bytes: other fields of every response
    Exchange *running;   // a list; it has a reference to each
    Exchange *heads;     // a list of those with a head that waits; asgi_heads.c
    Exchange **by_slot;  // until Go knows that the response is complete
    uint32_t slots;
    Exchange **starting; // the requests of this batch
    size_t starting_len, starting_cap;
    PyObject **lent; // bytes objects that records in the outbox refer to
    size_t lent_len, lent_cap;
    Py_ssize_t lent_bytes;
    size_t last_record; // in the outbox, if it is not empty
    Py_ssize_t active, total, max_active, max_total;
    unsigned operations; // that have begun
    const void *busy;    // the exchange of the last operation that looked at the clock; only compared
    int64_t busy_since;  // when it did so first
    bool draining;
    bool dates; // responses have a field Date
    long long date_second;
    char date[40]; // the field Date as a line
};

void server_release(Exchange *x); // when Go is told that the response is complete
void server_ended(Exchange *x); // the app has returned and everything was sent
const char *server_date(Server *s);

// asgi_check.c
PyObject *server_check(PyObject *module, PyObject *config);
void server_send_heads(Loop *l, bool waits); // asgi_heads.c

// asgi_outbox.c
int outbox_load(void);
char *server_out(Server *s, int kind, int flags, uint32_t slot, uint32_t n, size_t payload); // never fails
char *server_answer(Server *s, uint32_t slot, size_t n);
bool server_lend(Server *s, uint32_t slot, PyObject *bytes);
void outbox_taken(Server *s);
void server_flush(Server *s);
void outbox_limit(Exchange *x);

// asgi_heads.c
void heads_add(Exchange *x);
void heads_remove(Exchange *x); // if it is in the list

// asgi_scope.c
PyObject *scope_new(Server *s, const SpindleRecord *r);
PyObject *scope_name(const SpindleRecord *r); // "GET /path", for people
int scope_init(void);

// asgi_exchange.c: a request and its response, or a WebSocket.
enum { // what the app may send next
    RESPONSE_NONE,    // the start
    RESPONSE_STARTED, // the body; the head is not sent
    RESPONSE_BODY,    // the rest of the body
    RESPONSE_TRAILERS,
    RESPONSE_DONE,
    WS_CONNECTING = 8, // accept, close, or the start of a denial
    WS_DENYING,        // the body of the denial
    WS_OPEN,
    WS_CLOSED,
};

enum { // what ends the body of a response
    FRAME_NONE,   // there is none
    FRAME_LENGTH, // its length
    FRAME_CHUNKS, // an empty chunk
    FRAME_END,    // the end of the connection, or of the stream
};

struct Exchange {
    PyObject_HEAD
    Server *server;
    Exchange *prev, *next; // in server->running
    Exchange *head_prev, *head_next; // in server->heads
    PyObject *scope;   // until the app is started
    PyObject *name;    // of the task, until that is made
    PyObject *task;    // while the app runs
    PyObject *waiters; // futures of receive and send; NULL if none
    PyObject *body;    // bytes that receive has yet to return; NULL if none
    PyObject *inbox;   // messages of a WebSocket, a list; NULL if none
    PyObject *reason;  // why a WebSocket was closed
    uint32_t slot;
    uint32_t lend_most; // bytes that are lent before they are passed to Go; 0 for the default
    uint16_t flags;     // of the request
    uint8_t phase;
    uint8_t framing;
    int code;        // of a WebSocket that was closed
    int status;
    int64_t length;   // of the request's body
    int64_t received; // bytes of it
    int64_t declared; // length of the response's body; -1 if it is not known
    int64_t written;  // bytes of it
    bool to_head;     // the method is HEAD
    bool complete;    // the request has come as a whole
    bool delivered;   // receive has returned the end of the body
    bool continued;   // a 100 was sent
    bool gone, lost;
    bool told;        // receive has returned http.disconnect
    bool closes;      // the connection closes after the response
    bool chunked;     // the app wants chunks
    bool trailers;    // the app will send trailers
    bool dated, named; // the response has a field Date, Server
    bool connected;   // websocket.connect was received
    bool head_ready;  // on a stream: the head is complete, and Go does not have it
    bool head_waits;  // in server->heads
    bool head_polled; // the loop has polled since
    bool head_alone;  // the head was sent before the body
    bool released;    // Go knows that the response is complete
    char *head;       // of the response, until it is sent
    size_t head_len, head_cap;
};

Exchange *exchange_new(Server *s, const SpindleRecord *r);
void exchange_body(Exchange *x, const char *data, size_t len);
void exchange_wake(Exchange *x);
void exchange_refuse(Exchange *x, int status); // answer in place of the app
void exchange_fail(Exchange *x, bool failed); // end a response that the app has not completed

// asgi_operation.c: what receive() and send() return.
PyObject *operation_new(Exchange *x, PyObject *message); // message NULL to receive
PyObject *receive_new(Exchange *x);
PyObject *send_new(Exchange *x);

// Receiving returns a message, or NULL: without an exception, wait. Sending returns 0 if it
// is done, 1 to wait for the client, and -1 with an exception.
PyObject *http_receive(Exchange *x);
int http_send(Exchange *x, PyObject *message);
void http_send_head(Exchange *x); // before the body
PyObject *websocket_receive(Exchange *x);
int websocket_send(Exchange *x, PyObject *message);
static inline bool is_websocket(Exchange *x) { return x->flags & SPINDLE_WEBSOCKET; }
static inline bool on_stream(Exchange *x) { return x->flags & SPINDLE_HTTP2; }
static inline bool is_held(Exchange *x) {
    return x->server->box && !x->released && x->server->box->held[x->slot];
}

// asgi_response.c
int head_start(Exchange *x, PyObject *message);
int head_fields(Exchange *x, PyObject *headers, bool trailers);
void head_commit(Exchange *x, Py_ssize_t first, bool more);
void answer_error(Server *s, uint32_t slot, int status, bool to_head, bool stream);
int head_append(Exchange *x, const char *data, size_t len);
int check_field(const char *name, Py_ssize_t n, const char *value, Py_ssize_t m);

// asgi_message.c: reading messages of the app.
PyObject *message_type(PyObject *message); // a new reference; NULL with an exception
PyObject *message_get(PyObject *message, PyObject *key); // a new reference; NULL without an exception if it is missing
int message_flag(PyObject *message, PyObject *key);      // false if it is missing
int message_bytes(PyObject *message, PyObject *key, Py_buffer *view); // 0 if it is missing; then view->obj is NULL
int message_status(PyObject *message); // of a final response; -1 with an exception
static inline bool same_type(PyObject *a, PyObject *b) { return a == b || PyUnicode_Compare(a, b) == 0; }
int message_fits(Py_ssize_t len); // -1 with an exception if so many bytes are too many for a record

typedef struct {
    PyObject *type, *body, *more_body, *status, *headers, *trailers, *more_trailers, *path, *links, *text, *bytes,
        *code, *reason, *subprotocol, *raw_path, *query_string, *method, *client, *http_version, *scheme, *state,
        *subprotocols, *asgi_, *extensions, *done, *exception, *add_done_callback, *set_result, *cancel, *result, *cancelled;
    PyObject *request, *disconnect, *response_start, *response_body, *response_trailers, *pathsend, *early_hint;
    PyObject *ws_connect, *ws_receive, *ws_disconnect, *ws_accept, *ws_send, *ws_close, *ws_response_start,
        *ws_response_body;
    PyObject *empty; // b""
    PyObject *version_10, *version_2;
} AsgiNames;

// A Field is the name of a header field that was seen; asgi_scope.c.
typedef struct {
    PyObject *name; // bytes
    PyObject *last; // a pair; NULL if there is none
    bool secret, forwards;
} Field;

typedef struct {
    char host[46];
    uint32_t len, port;
    PyObject *pair;
} Client;

// ServerState is what an interpreter has for its servers.
struct ServerState {
    AsgiNames words;
    PyTypeObject *server, *exchange, *operation, *receive, *send;
    Exchange *spare_exchanges[256];
    PyObject *spare_operations[64], *spare_callables[64];
    int spare_exchange_count, spare_operation_count, spare_callable_count;
    Field fields[512]; // a hash table
    int field_count;
    Client clients[1024]; // that were seen, by hash
    PyObject *methods[8];
};

static inline struct ServerState *server_state(void) { return state()->server; }
#define asgi (server_state()->words) // of the interpreter, as names is
extern PyType_Spec server_spec, exchange_spec, operation_spec, receive_spec, send_spec;
int asgi_init(PyObject *module);
int asgi_traverse(State *s, visitproc visit, void *arg);
void asgi_free(State *s);
void exchange_free_spare(struct ServerState *s);
void operation_free_spare(struct ServerState *s);
void scope_free(struct ServerState *s);

#endif
