// Receives datagrams of the internet. socket.recvfrom allocates space for the largest datagram each
// time, and raises an exception when there is none.
#include "core.h"
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

// Datagrams is what an interpreter has for receiving.
struct Datagrams {
    char buffer[64 * 1024]; // above the largest datagram
    // The address that the last datagram came from: the next one is often from there too.
    struct sockaddr_storage last;
    socklen_t last_len;
    PyObject *last_tuple;
};

void datagrams_free(State *s) {
    if (s->datagrams)
        Py_XDECREF(s->datagrams->last_tuple);
    PyMem_Free(s->datagrams);
    s->datagrams = NULL;
}

// address returns what socket.recvfrom returns for an address.
static PyObject *address(struct Datagrams *d, struct sockaddr_storage *from, socklen_t len) {
    if (d->last_tuple && len == d->last_len && memcmp(from, &d->last, len) == 0)
        return Py_NewRef(d->last_tuple);
    char host[INET6_ADDRSTRLEN]; // without a scope, which the tuple has as a number
    const void *number = from->ss_family == AF_INET6 ? (const void *)&((struct sockaddr_in6 *)from)->sin6_addr
                                                     : (const void *)&((struct sockaddr_in *)from)->sin_addr;
    if (!inet_ntop(from->ss_family, number, host, sizeof host))
        return PyErr_SetFromErrno(PyExc_OSError);
    PyObject *tuple;
    if (from->ss_family == AF_INET6) {
        struct sockaddr_in6 *in = (struct sockaddr_in6 *)from;
        tuple = Py_BuildValue("siII", host, (int)ntohs(in->sin6_port), ntohl(in->sin6_flowinfo), in->sin6_scope_id);
    } else {
        tuple = Py_BuildValue("si", host, (int)ntohs(((struct sockaddr_in *)from)->sin_port));
    }
    if (tuple) {
        memcpy(&d->last, from, len);
        d->last_len = len;
        Py_INCREF(tuple);
        Py_XSETREF(d->last_tuple, tuple);
    }
    return tuple;
}

// datagram_receive is receive_datagram(fd). It returns data and address, or None if there is no
// datagram now.
PyObject *datagram_receive(PyObject *Py_UNUSED(module), PyObject *fd_object) {
    int fd = PyLong_AsLong(fd_object);
    if (fd == -1 && PyErr_Occurred())
        return NULL;
    State *s = state();
    struct Datagrams *d = s->datagrams;
    if (!d && !(d = s->datagrams = PyMem_Calloc(1, sizeof *d)))
        return PyErr_NoMemory();
    struct sockaddr_storage from;
    socklen_t len = sizeof from;
    ssize_t n = syscall(SYS_recvfrom, fd, d->buffer, sizeof d->buffer, 0, &from, &len);
    if (n < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
            Py_RETURN_NONE;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    PyObject *data = PyBytes_FromStringAndSize(d->buffer, n);
    PyObject *sender = data ? address(d, &from, len) : NULL;
    PyObject *both = sender ? PyTuple_Pack(2, data, sender) : NULL;
    Py_XDECREF(data);
    Py_XDECREF(sender);
    return both;
}
