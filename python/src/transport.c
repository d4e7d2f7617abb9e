// The transport of a stream socket: receives, sends, and keeps what could not be sent.
// What is rare (construction, errors, closing, information) is in transport.py: its class
// SocketTransport inherits from this type.
//
//            start            pause_reading
//   created ──────▶ reading ◀──────────────▶ paused
//                      │      resume_reading    │
//                      │ end of stream          │
//                      ▼                        │
//   close, abort    half closed (eof_received returned true: only writing)
//   or an error        │                        │
//      │               ▼                        ▼
//      └─────────▶ closing: sends what is left, unless aborted ──▶ connection_lost
#include "internals.h"
#include "world.h"
#include <errno.h>
#include <structmember.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// chunk is data to be sent: the caller's bytes object, or a copy.
typedef struct {
    PyObject *bytes;
    Py_ssize_t sent;
} Chunk;

struct Transport {
    PyObject_HEAD
    PyObject *extra, *unused[4]; // the slots of asyncio's _FlowControlMixin, from which the type inherits
    Loop *loop;
    PyObject *sock, *protocol, *context, *weakrefs;
    PyObject *data_received, *get_buffer, *buffer_updated; // bound methods of the protocol
    PyObject *reader;                                      // a weak reference to Spindle's StreamReader, see receive
    PyObject *empty_waiter;                                // a future, while sendfile needs the buffer empty
    PyObject *server;
    Chunk *chunks;
    int first, count, capacity; // of chunks
    Py_ssize_t unsent, high, low;
    int fd;
    int expected;  // the size of the last receive, if it was large and may be so again; or 0
    int interest;  // SPINDLE_READ while it reads, SPINDLE_WRITE while chunks wait
    int conn_lost; // connection_lost is called or will be
    bool closing, eof, paused, protocol_paused, buffered;
};

// System calls are made directly where they are hot: recv and send of libc are cancellation
// points of pthreads, which costs more than the rest of the function.
static ssize_t receive_some(Transport *t, void *into, size_t len) {
    if (t->loop && t->loop->simulated)
        return world_receive(t->loop, t->fd, into, len);
    return syscall(SYS_recvfrom, t->fd, into, len, 0, NULL, NULL);
}

static bool awaits_empty(Transport *t) { return t->empty_waiter && t->empty_waiter != Py_None; }

static int update(Transport *t, int interest) {
    if (t->interest == interest || !t->loop)
        return 0;
    if (t->loop->debug && loop_check_thread(t->loop) < 0)
        return -1;
    if (!t->loop)
        return 0;
    int before = t->interest;
    t->interest = interest;
    int r = watch_transport(t->loop, t->fd, t, interest);
    if (r < 0)
        t->interest = before & ~interest; // the descriptor cannot be watched
    return r;
}

static void drop_chunks(Transport *t) {
    for (; t->count > 0; t->count--)
        Py_DECREF(t->chunks[t->first++].bytes);
    PyMem_Free(t->chunks);
    t->chunks = NULL;
    t->first = t->capacity = 0;
    t->unsent = 0;
}

static int keep(Transport *t, PyObject *data, const char *at, Py_ssize_t len, Py_ssize_t sent) {
    PyObject *bytes;
    if (PyBytes_CheckExact(data)) {
        bytes = Py_NewRef(data);
    } else {
        bytes = PyBytes_FromStringAndSize(at + sent, len - sent);
        len -= sent;
        sent = 0;
    }
    if (!bytes)
        return -1;
    if (t->first + t->count == t->capacity) {
        if (t->first > 0) {
            memmove(t->chunks, t->chunks + t->first, t->count * sizeof *t->chunks);
            t->first = 0;
        } else {
            int capacity = t->capacity ? t->capacity * 2 : 4;
            Chunk *chunks = PyMem_Realloc(t->chunks, capacity * sizeof *chunks);
            if (!chunks) {
                Py_DECREF(bytes);
                PyErr_NoMemory();
                return -1;
            }
            t->chunks = chunks;
            t->capacity = capacity;
        }
    }
    t->chunks[t->first + t->count++] = (Chunk){bytes, sent};
    t->unsent += len - sent;
    return 0;
}

// failed closes the transport with the present exception. It returns -1 if that
// exception is to end the loop.
static int failed(Transport *t, const char *message) {
    if (exception_ends_loop())
        return -1;
    PyObject *exc = exception_take();
    PyObject *r = PyObject_CallMethod((PyObject *)t, "_fatal_error", "Os", exc, message);
    Py_XDECREF(exc);
    Py_XDECREF(r);
    return r ? 0 : -1;
}

// tell calls pause_writing or resume_writing of the protocol.
static int tell(Transport *t, PyObject *method) {
    if (!t->protocol)
        return 0;
    PyObject *protocol = Py_NewRef(t->protocol); // the call may set another one
    PyObject *r = PyObject_CallMethodNoArgs(protocol, method);
    Py_DECREF(protocol);
    if (!r) {
        if (exception_ends_loop())
            return -1;
        PyObject *exc = exception_take();
        r = PyObject_CallMethodObjArgs((PyObject *)t, names.protocol_failed, method, exc, NULL);
        Py_XDECREF(exc);
    }
    Py_XDECREF(r);
    return r ? 0 : -1;
}

static int maybe_pause(Transport *t) {
    if (t->protocol_paused || t->unsent <= t->high)
        return 0;
    t->protocol_paused = true;
    return tell(t, names.pause_writing);
}

static int maybe_resume(Transport *t) {
    if (!t->protocol_paused || t->unsent > t->low)
        return 0;
    t->protocol_paused = false;
    return tell(t, names.resume_writing);
}

// Sending.

// send_now sends what the kernel takes. It returns the number of bytes, 0 if it takes
// none now, -1 with errno.
static ssize_t send_now(Transport *t, const char *at, size_t len) {
    ssize_t n;
    do
        n = t->loop->simulated ? world_send(t->loop, t->fd, at, len)
                           : syscall(SYS_sendto, t->fd, at, len, MSG_NOSIGNAL, NULL, 0);
    while (n < 0 && errno == EINTR);
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : n;
}

// writable reports whether write may be called; if not, with an exception.
static bool writable(Transport *t) {
    if (t->eof) {
        PyErr_SetString(PyExc_RuntimeError, "Cannot call write() after write_eof()");
        return false;
    }
    if (awaits_empty(t)) {
        PyErr_SetString(PyExc_RuntimeError, "unable to write; sendfile is in progress");
        return false;
    }
    return true;
}

static PyObject *write_buffer(Transport *t, PyObject *data, const char *at, Py_ssize_t len) {
    if (!writable(t))
        return NULL;
    if (len == 0)
        Py_RETURN_NONE;
    if (t->conn_lost || !t->loop) {
        if (t->conn_lost++ < 5)
            Py_RETURN_NONE;
        return PyObject_CallMethod((PyObject *)t, "_write_after_loss", NULL);
    }
    ssize_t n = 0;
    if (t->count == 0) {
        n = send_now(t, at, len);
        t->loop->poll_due = true;
        if (n == len)
            Py_RETURN_NONE;
        if (n < 0) {
            PyErr_SetFromErrno(PyExc_OSError);
            if (failed(t, "Fatal write error on socket transport") < 0)
                return NULL;
            Py_RETURN_NONE;
        }
    }
    if (keep(t, data, at, len, n) < 0 || update(t, t->interest | SPINDLE_WRITE) < 0 || maybe_pause(t) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *transport_write(Transport *t, PyObject *data) {
    if (PyBytes_CheckExact(data))
        return write_buffer(t, data, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data));
    if (!PyBytes_Check(data) && !PyByteArray_Check(data) && !PyMemoryView_Check(data)) {
        PyErr_Format(PyExc_TypeError, "data argument must be a bytes-like object, not '%s'", Py_TYPE(data)->tp_name);
        return NULL;
    }
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *r = write_buffer(t, data, view.buf, view.len);
    PyBuffer_Release(&view);
    return r;
}

// flush sends chunks. It returns 1 if all are sent, 0 if not, -1 with errno.
static int flush(Transport *t) {
    while (t->count > 0) {
        struct iovec iov[64];
        int n = 0;
        size_t offered = 0;
        for (int most = t->loop->simulated ? 1 : 64; n < t->count && n < most; n++) {
            Chunk *c = &t->chunks[t->first + n];
            iov[n].iov_base = PyBytes_AS_STRING(c->bytes) + c->sent;
            iov[n].iov_len = PyBytes_GET_SIZE(c->bytes) - c->sent;
            offered += iov[n].iov_len;
        }
        struct msghdr message = {.msg_iov = iov, .msg_iovlen = n};
        ssize_t sent;
        do
            sent = t->loop->simulated ? world_send(t->loop, t->fd, iov[0].iov_base, iov[0].iov_len)
                                  : sendmsg(t->fd, &message, MSG_NOSIGNAL);
        while (sent < 0 && errno == EINTR);
        if (sent < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
        t->unsent -= sent;
        size_t left = sent;
        while (t->count > 0) {
            Chunk *c = &t->chunks[t->first];
            size_t rest = PyBytes_GET_SIZE(c->bytes) - c->sent;
            if (left < rest) {
                c->sent += left;
                break;
            }
            left -= rest;
            Py_DECREF(c->bytes);
            t->first++;
            t->count--;
        }
        if ((size_t)sent < offered)
            return 0;
    }
    drop_chunks(t);
    return 1;
}

static int write_ready(Transport *t) {
    if (t->conn_lost || t->count == 0)
        return 0;
    int all = flush(t);
    if (all < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        PyObject *exc = exception_take();
        drop_chunks(t);
        int r = update(t, t->interest & ~SPINDLE_WRITE);
        PyObject *called = r < 0 ? NULL : PyObject_CallMethod((PyObject *)t, "_write_failed", "O", exc);
        Py_XDECREF(exc);
        Py_XDECREF(called);
        return called ? 0 : -1;
    }
    if (maybe_resume(t) < 0) // may write more
        return -1;
    if (t->count > 0)
        return 0;
    if (update(t, t->interest & ~SPINDLE_WRITE) < 0)
        return -1;
    if (!t->closing && !t->eof && !awaits_empty(t))
        return 0;
    PyObject *r = PyObject_CallMethod((PyObject *)t, "_all_sent", NULL);
    Py_XDECREF(r);
    return r ? 0 : -1;
}

// Receiving.

static int end_of_stream(Transport *t) {
    PyObject *protocol = Py_NewRef(t->protocol);
    PyObject *r = PyObject_CallMethodNoArgs(protocol, names.eof_received);
    Py_DECREF(protocol);
    int keep_open = r ? PyObject_IsTrue(r) : -1;
    Py_XDECREF(r);
    if (keep_open < 0)
        return failed(t, "Fatal error: protocol.eof_received() call failed.");
    if (keep_open)
        return update(t, t->interest & ~SPINDLE_READ);
    r = PyObject_CallMethod((PyObject *)t, "close", NULL);
    Py_XDECREF(r);
    return r ? 0 : -1;
}

// received_nothing handles the result of a receive that brought no data.
static int received_nothing(Transport *t, ssize_t n) {
    if (n == 0)
        return end_of_stream(t);
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return 0;
    PyErr_SetFromErrno(PyExc_OSError);
    return failed(t, "Fatal read error on socket transport");
}

// receive gives data to the protocol. Spindle's StreamReader gets it without the two methods of
// Python between.
static int receive(Transport *t, PyObject *data) {
    if (t->reader) {
        PyObject *reader = weak_target(t->reader);
        int r = reader ? stream_feed((StreamReader *)reader, data) : 0;
        Py_XDECREF(reader);
        return r;
    }
    // A reference of our own: the call may set another protocol.
    PyObject *method = t->data_received ? Py_NewRef(t->data_received)
                                        : PyObject_GetAttr(t->protocol, names.data_received);
    PyObject *r = method ? PyObject_CallOneArg(method, data) : NULL;
    Py_XDECREF(method);
    Py_XDECREF(r);
    return r ? 0 : -1;
}

// Data is received into the loop's buffer and copied. If the last receive was large, the next
// one goes to a bytes object of its size and a bit more. Objects above LARGE_MOST are not worth
// that: malloc maps new pages for each.
#define LARGE_LEAST (16 * 1024)
#define LARGE_MOST (120 * 1024)

static int next_size(ssize_t n) { return n >= LARGE_LEAST && n <= LARGE_MOST * 8 / 9 ? (int)n : 0; }

// receive_large receives into a new bytes object. *data is NULL if nothing was received, or with
// an exception.
static ssize_t receive_large(Transport *t, PyObject **data) {
    Py_ssize_t capacity = t->expected + t->expected / 8;
    if (!(*data = PyBytes_FromStringAndSize(NULL, capacity)))
        return 1;
    ssize_t n = receive_some(t, PyBytes_AS_STRING(*data), capacity);
    if (n <= 0) {
        int err = errno;
        Py_CLEAR(*data);
        errno = err;
    } else if (n < capacity) {
        _PyBytes_Resize(data, n); // sets *data to NULL if it fails
        t->expected = next_size(n);
    } else {
        t->expected = 0; // there may be more; the loop's buffer is larger
    }
    return n;
}

static ssize_t receive_copy(Transport *t, PyObject **data) {
    ssize_t n = receive_some(t, t->loop->buffer, READ_BUFFER);
    *data = n > 0 ? PyBytes_FromStringAndSize(t->loop->buffer, n) : NULL;
    t->expected = next_size(n);
    return n;
}

static int read_data(Transport *t) {
    PyObject *data;
    ssize_t n = t->expected ? receive_large(t, &data) : receive_copy(t, &data);
    if (!data)
        return n > 0 ? -1 : received_nothing(t, n);
    int r = receive(t, data);
    Py_DECREF(data);
    return r < 0 ? failed(t, "Fatal error: protocol.data_received() call failed.") : 0;
}

// receive_into receives into the buffer that the protocol provides. The callables are
// references of the caller's: a call may set another protocol.
static int receive_into(Transport *t, PyObject *get, PyObject *updated, PyObject *any) {
    PyObject *buffer = PyObject_CallOneArg(get, any);
    Py_buffer view;
    if (!buffer || PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE) < 0) {
        Py_XDECREF(buffer);
        return failed(t, "Fatal error: protocol.get_buffer() call failed.");
    }
    ssize_t n = -1;
    if (view.len == 0)
        PyErr_SetString(PyExc_RuntimeError, "get_buffer() returned an empty buffer");
    else
        n = receive_some(t, view.buf, view.len);
    bool empty = view.len == 0;
    PyBuffer_Release(&view);
    Py_DECREF(buffer);
    if (empty)
        return failed(t, "Fatal error: protocol.get_buffer() call failed.");
    if (n <= 0)
        return received_nothing(t, n);
    PyObject *count = PyLong_FromSsize_t(n);
    PyObject *r = count ? PyObject_CallOneArg(updated, count) : NULL;
    Py_XDECREF(count);
    if (!r)
        return failed(t, "Fatal error: protocol.buffer_updated() call failed.");
    Py_DECREF(r);
    return 0;
}

static int read_into_buffer(Transport *t) {
    PyObject *get = Py_NewRef(t->get_buffer), *updated = Py_NewRef(t->buffer_updated);
    int result = receive_into(t, get, updated, names.minus_one);
    Py_DECREF(get);
    Py_DECREF(updated);
    return result;
}

// report gives the present exception to the loop's exception handler. It returns -1 if the
// exception is to end the loop.
static int report(Transport *t, Loop *l) {
    if (exception_ends_loop())
        return -1;
    PyObject *exc = exception_take();
    PyObject *r = PyObject_CallMethod((PyObject *)l, "call_exception_handler", "{sssOsO}", "message",
                                      "Exception in a transport's callback", "exception", exc, "transport", t);
    Py_XDECREF(exc);
    Py_XDECREF(r);
    return r ? 0 : -1;
}

int transport_ready(Transport *t, int ready) {
    if (t->conn_lost || !(t->interest & ready))
        return 0; // closed or paused since
    Loop *l = (Loop *)Py_NewRef((PyObject *)t->loop); // the transport may let go of it
    int r = -1;
    if (PyContext_Enter(t->context) == 0) {
        if (ready == SPINDLE_WRITE)
            r = write_ready(t);
        else if (t->buffered)
            r = read_into_buffer(t);
        else
            r = read_data(t);
        if (PyContext_Exit(t->context) < 0)
            r = -1;
    }
    if (r < 0)
        r = report(t, l);
    Py_DECREF((PyObject *)l);
    return r;
}

// Methods.

// reader_of returns a weak reference to Spindle's StreamReader that protocol feeds, NULL if
// there is none or if data_received is not asyncio's.
static PyObject *reader_of(PyObject *protocol, PyObject *data_received) {
    if ((PyObject *)Py_TYPE(protocol) != names.stream_protocol || !data_received ||
        !PyMethod_Check(data_received) || PyMethod_GET_FUNCTION(data_received) != names.stream_data_received)
        return NULL;
    PyObject *ref = PyObject_GetAttr(protocol, names.reader_ref);
    PyObject *reader = ref && PyWeakref_CheckRefExact(ref) ? weak_target(ref) : NULL;
    if (!reader || !PyObject_TypeCheck(reader, state()->types.stream_reader))
        Py_CLEAR(ref);
    Py_XDECREF(reader);
    PyErr_Clear();
    return ref;
}

static PyObject *transport_set_protocol(Transport *t, PyObject *protocol) {
    int buffered = PyObject_IsInstance(protocol, names.buffered_protocol);
    if (buffered < 0)
        return NULL;
    PyObject *data = NULL, *get = NULL, *updated = NULL;
    if (buffered) {
        if (!(get = PyObject_GetAttr(protocol, names.get_buffer)) ||
            !(updated = PyObject_GetAttr(protocol, names.buffer_updated))) {
            Py_XDECREF(get);
            return NULL;
        }
    } else if (!(data = PyObject_GetAttr(protocol, names.data_received))) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return NULL;
        PyErr_Clear(); // it may never receive
    }
    PyObject *old[] = {t->reader, t->data_received, t->get_buffer, t->buffer_updated, t->protocol};
    t->reader = reader_of(protocol, data);
    t->data_received = data;
    t->get_buffer = get;
    t->buffer_updated = updated;
    t->protocol = Py_NewRef(protocol);
    t->buffered = buffered;
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        Py_XDECREF(old[i]);
    Py_RETURN_NONE;
}

static PyObject *none_or_null(int r) {
    if (r < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *transport_start(Transport *t, PyObject *Py_UNUSED(ignored)) {
    if (t->closing || t->paused)
        Py_RETURN_NONE;
    return none_or_null(update(t, t->interest | SPINDLE_READ));
}

static PyObject *transport_pause(Transport *t, PyObject *Py_UNUSED(ignored)) {
    if (t->closing || t->paused)
        Py_RETURN_NONE;
    t->paused = true;
    return none_or_null(update(t, t->interest & ~SPINDLE_READ));
}

static PyObject *transport_resume(Transport *t, PyObject *Py_UNUSED(ignored)) {
    if (t->closing || !t->paused)
        Py_RETURN_NONE;
    t->paused = false;
    return none_or_null(update(t, t->interest | SPINDLE_READ));
}

static PyObject *transport_is_reading(Transport *t, PyObject *Py_UNUSED(ignored)) {
    return PyBool_FromLong(!t->closing && !t->paused);
}

static PyObject *transport_is_closing(Transport *t, PyObject *Py_UNUSED(ignored)) {
    return PyBool_FromLong(t->closing);
}

static PyObject *transport_get_protocol(Transport *t, PyObject *Py_UNUSED(ignored)) {
    return Py_NewRef(t->protocol ? t->protocol : Py_None);
}

static PyObject *transport_unsent(Transport *t, PyObject *Py_UNUSED(ignored)) { return PyLong_FromSsize_t(t->unsent); }

static PyObject *transport_stop_reading(Transport *t, PyObject *Py_UNUSED(ignored)) {
    return none_or_null(update(t, t->interest & ~SPINDLE_READ));
}

static PyObject *transport_discard(Transport *t, PyObject *Py_UNUSED(ignored)) {
    drop_chunks(t);
    return none_or_null(update(t, 0));
}

static PyObject *transport_maybe_pause(Transport *t, PyObject *Py_UNUSED(ignored)) {
    return none_or_null(maybe_pause(t));
}

// release lets go of everything when the connection is lost.
static PyObject *transport_release(Transport *t, PyObject *Py_UNUSED(ignored)) {
    drop_chunks(t);
    if (update(t, 0) < 0)
        return NULL;
    t->fd = -1; // the number may be given to another connection
    t->closing = true;
    if (t->conn_lost == 0)
        t->conn_lost = 1;
    if (t->loop)
        t->loop->poll_due = true;
    Py_CLEAR(t->data_received);
    Py_CLEAR(t->reader);
    Py_CLEAR(t->get_buffer);
    Py_CLEAR(t->buffer_updated);
    Py_CLEAR(t->protocol);
    Py_CLEAR(t->sock);
    Py_CLEAR(t->loop);
    Py_RETURN_NONE;
}

static PyObject *transport_new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs)) {
    Transport *t = (Transport *)type->tp_alloc(type, 0);
    if (!t)
        return NULL;
    t->fd = -1;
    t->high = 64 * 1024;
    t->low = 16 * 1024;
    if (!(t->context = PyContext_CopyCurrent())) {
        Py_DECREF(t);
        return NULL;
    }
    return (PyObject *)t;
}

// attach is the constructor: attach(loop, sock, protocol).
static PyObject *transport_attach(Transport *t, PyObject *args) {
    PyObject *loop, *sock, *protocol;
    if (!PyArg_ParseTuple(args, "O!OO", state()->types.loop, &loop, &sock, &protocol))
        return NULL;
    if (t->loop) {
        PyErr_SetString(PyExc_RuntimeError, "spindle: the transport has a socket already");
        return NULL;
    }
    if ((t->fd = PyObject_AsFileDescriptor(sock)) < 0)
        return NULL;
    t->loop = (Loop *)Py_NewRef(loop);
    Py_XSETREF(t->sock, Py_NewRef(sock));
    return transport_set_protocol(t, protocol);
}

static int transport_traverse(Transport *t, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(t));
    Py_VISIT(t->loop);
    Py_VISIT(t->sock);
    Py_VISIT(t->protocol);
    Py_VISIT(t->context);
    Py_VISIT(t->data_received);
    Py_VISIT(t->reader);
    Py_VISIT(t->get_buffer);
    Py_VISIT(t->buffer_updated);
    Py_VISIT(t->empty_waiter);
    Py_VISIT(t->extra);
    Py_VISIT(t->server);
    return 0;
}

static int transport_clear(Transport *t) {
    drop_chunks(t);
    Py_CLEAR(t->loop);
    Py_CLEAR(t->sock);
    Py_CLEAR(t->protocol);
    Py_CLEAR(t->context);
    Py_CLEAR(t->data_received);
    Py_CLEAR(t->reader);
    Py_CLEAR(t->get_buffer);
    Py_CLEAR(t->buffer_updated);
    Py_CLEAR(t->empty_waiter);
    Py_CLEAR(t->extra);
    Py_CLEAR(t->server);
    return 0;
}

static void transport_dealloc(Transport *t) {
    PyObject_GC_UnTrack(t);
    Py_TRASHCAN_BEGIN(t, transport_dealloc)
    if (t->weakrefs)
        PyObject_ClearWeakRefs((PyObject *)t);
    transport_clear(t);
    PyTypeObject *type = Py_TYPE(t);
    type->tp_free((PyObject *)t);
    Py_DECREF(type);
    Py_TRASHCAN_END
}

static PyMethodDef transport_methods[] = {
    {"write", (PyCFunction)transport_write, METH_O, "Send data; what cannot be sent now is kept and sent later."},
    {"set_protocol", (PyCFunction)transport_set_protocol, METH_O, "Set the protocol."},
    {"get_protocol", (PyCFunction)transport_get_protocol, METH_NOARGS, "Return the protocol."},
    {"pause_reading", (PyCFunction)transport_pause, METH_NOARGS, "Stop calling data_received."},
    {"resume_reading", (PyCFunction)transport_resume, METH_NOARGS, "Undo pause_reading."},
    {"is_reading", (PyCFunction)transport_is_reading, METH_NOARGS, "Report whether the transport is receiving."},
    {"is_closing", (PyCFunction)transport_is_closing, METH_NOARGS, "Report whether the transport is closing or closed."},
    {"get_write_buffer_size", (PyCFunction)transport_unsent, METH_NOARGS, "Return the number of bytes to be sent."},
    {"_attach", (PyCFunction)transport_attach, METH_VARARGS, NULL},
    {"_start_reading", (PyCFunction)transport_start, METH_NOARGS, NULL},
    {"_stop_reading", (PyCFunction)transport_stop_reading, METH_NOARGS, NULL},
    {"_discard", (PyCFunction)transport_discard, METH_NOARGS, NULL},
    {"_maybe_pause_protocol", (PyCFunction)transport_maybe_pause, METH_NOARGS, NULL},
    {"_release", (PyCFunction)transport_release, METH_NOARGS, NULL},
    {0},
};

static PyMemberDef transport_members[] = {
    {"_loop", T_OBJECT, offsetof(Transport, loop), READONLY},
    {"_sock", T_OBJECT, offsetof(Transport, sock), READONLY},
    {"_sock_fd", T_INT, offsetof(Transport, fd), READONLY},
    {"_protocol", T_OBJECT, offsetof(Transport, protocol), READONLY},
    {"_empty_waiter", T_OBJECT, offsetof(Transport, empty_waiter)},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Transport, weakrefs), READONLY},
    {"_server", T_OBJECT, offsetof(Transport, server)},
    {"_conn_lost", T_INT, offsetof(Transport, conn_lost)},
    {"_closing", T_BOOL, offsetof(Transport, closing)},
    {"_paused", T_BOOL, offsetof(Transport, paused), READONLY},
    {"_eof", T_BOOL, offsetof(Transport, eof)},
    {"_protocol_paused", T_BOOL, offsetof(Transport, protocol_paused)},
    {"_high_water", T_PYSSIZET, offsetof(Transport, high)},
    {"_low_water", T_PYSSIZET, offsetof(Transport, low)},
    {0},
};

static PyType_Slot transport_slots[] = {
    {Py_tp_new, transport_new},
    {Py_tp_traverse, transport_traverse},
    {Py_tp_clear, transport_clear},
    {Py_tp_dealloc, transport_dealloc},
    {Py_tp_methods, transport_methods},
    {Py_tp_members, transport_members},
    {0},
};

PyType_Spec transport_spec = {
    .name = "spindle._core.Transport",
    .basicsize = sizeof(Transport),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = transport_slots,
};

// transport_base returns what the type inherits from: asyncio's transports, because libraries
// and asyncio itself ask for that; the struct begins as those classes do.
PyObject *transport_base(void) {
    PyObject *transports = PyImport_ImportModule("asyncio.transports");
    PyObject *base = transports ? PyObject_GetAttrString(transports, "_FlowControlMixin") : NULL;
    Py_XDECREF(transports);
    if (base && ((PyTypeObject *)base)->tp_basicsize != offsetof(Transport, loop)) {
        internals_refuse("transports of asyncio");
        Py_CLEAR(base);
    }
    return base;
}
