// What is called when a descriptor is ready: a reader and a writer, as in
// loop.add_reader, or a transport. Go is told only of changes.
#include "core.h"
#include <fcntl.h>

static Watcher *watcher(Loop *l, int fd) {
    if (fd >= l->watchers.len) {
        int len = fd + 64;
        Watcher *by_fd = PyMem_Realloc(l->watchers.by_fd, len * sizeof *by_fd);
        if (!by_fd) {
            PyErr_NoMemory();
            return NULL;
        }
        memset(by_fd + l->watchers.len, 0, (len - l->watchers.len) * sizeof *by_fd);
        l->watchers.by_fd = by_fd;
        l->watchers.len = len;
    }
    return &l->watchers.by_fd[fd];
}

// know remembers the descriptor of a token. If there is no memory for it, Go delivers its events.
static void know(Loop *l, uint64_t token, int fd) {
    Watchers *all = &l->watchers;
    int row = (int)(uint32_t)token;
    if (row >= all->rows) {
        int rows = row + 64;
        int *fds = PyMem_Realloc(all->fds, rows * sizeof *fds);
        if (!fds)
            return;
        memset(fds + all->rows, 0, (rows - all->rows) * sizeof *fds);
        all->fds = fds;
        all->rows = rows;
    }
    all->fds[row] = fd;
    all->by_fd[fd].token = token;
}

int watch_fd(Loop *l, uint64_t token) {
    uint32_t row = (uint32_t)token;
    if (row >= (uint32_t)l->watchers.rows)
        return -1;
    int fd = l->watchers.fds[row];
    return fd < l->watchers.len && l->watchers.by_fd[fd].token == token ? fd : -1;
}

int watch_wake_fd(Loop *l) {
    uint64_t token = 0;
    int r = golib.watch(l->id, l->wake_fd, SPINDLE_READ, &token);
    if (r < 0) {
        golib_raise(r);
        return -1;
    }
    if (!watcher(l, l->wake_fd))
        return -1;
    know(l, token, l->wake_fd);
    return 0;
}

// update tells Go what to wait for on fd, if that has changed.
static int update(Loop *l, Watcher *w, int fd) {
    int interest = w->transport_interest | (w->reader ? SPINDLE_READ : 0) | (w->writer ? SPINDLE_WRITE : 0);
    if (w->interest == interest || l->id < 0)
        return 0;
    uint64_t token = w->token;
    int r = golib.watch(l->id, fd, interest, &token);
    l->watchers.used += (interest != 0) - (w->interest != 0);
    w->interest = interest;
    if (r < 0 && interest) {
        golib_raise(r);
        return -1;
    }
    if (token != w->token)
        know(l, token, fd);
    return 0;
}

// forget makes the row agree with Go after a failure: nothing is watched.
static void forget(Loop *l, Watcher *w) {
    l->watchers.used -= w->interest != 0;
    w->interest = 0;
}

int watch_set(Loop *l, int fd, int direction, Handle *h) {
    if (fd >= l->watchers.len) {
        if (!h)
            return 0;
        if (fcntl(fd, F_GETFD) < 0) { // before the table grows for a wrong number
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
    }
    Watcher *w = watcher(l, fd);
    if (!w)
        return -1;
    Handle **at = direction == SPINDLE_READ ? &w->reader : &w->writer;
    Handle *old = *at;
    *at = (Handle *)Py_XNewRef((PyObject *)h);
    if (h)
        handle_track(h); // it stays for long
    int r = update(l, w, fd);
    if (r < 0) { // the descriptor cannot be watched
        Py_CLEAR(*at);
        forget(l, w);
    }
    if (old) {
        handle_cancel(old);
        Py_DECREF(old);
    }
    return r;
}

int watch_transport(Loop *l, int fd, Transport *t, int interest) {
    Watcher *w = watcher(l, fd);
    if (!w)
        return -1;
    Transport *old = w->transport;
    w->transport = interest ? (Transport *)Py_NewRef((PyObject *)t) : NULL;
    w->transport_interest = interest;
    int r = update(l, w, fd);
    if (r < 0) {
        forget(l, w);
        w->transport_interest = 0;
        Py_CLEAR(w->transport);
    }
    Py_XDECREF((PyObject *)old);
    return r;
}

int watch_find(Loop *l, PyObject *file) {
    for (int fd = 0; fd < l->watchers.len; fd++)
        if (l->watchers.by_fd[fd].file == file)
            return fd;
    return -1;
}

void watch_file(Loop *l, int fd, PyObject *file) {
    Watcher *w = &l->watchers.by_fd[fd];
    if (!w->interest || PyLong_Check(file))
        file = NULL;
    Py_XINCREF(file);
    Py_XSETREF(w->file, file);
}

int watch_deliver(Loop *l, SpindleEvent *e) {
    Watcher *w = &l->watchers.by_fd[e->fd];
    for (int direction = SPINDLE_READ; direction <= SPINDLE_WRITE; direction <<= 1) {
        if (!(e->ready & w->interest & direction))
            continue;
        Handle *h = direction == SPINDLE_READ ? w->reader : w->writer;
        if (h ? ready_push(&l->ready, (PyObject *)h, 0) < 0
              : ready_push(&l->ready, (PyObject *)w->transport, direction) < 0)
            return -1;
    }
    return 0;
}

int watch_visit(Loop *l, visitproc visit, void *arg) {
    for (int fd = 0; fd < l->watchers.len; fd++) {
        Py_VISIT((PyObject *)l->watchers.by_fd[fd].transport);
        Py_VISIT(l->watchers.by_fd[fd].file);
        Py_VISIT(l->watchers.by_fd[fd].reader);
        Py_VISIT(l->watchers.by_fd[fd].writer);
    }
    return 0;
}

void watch_clear(Loop *l) {
    for (int fd = 0; fd < l->watchers.len; fd++) {
        Py_CLEAR(l->watchers.by_fd[fd].transport);
        Py_CLEAR(l->watchers.by_fd[fd].file);
        Py_CLEAR(l->watchers.by_fd[fd].reader);
        Py_CLEAR(l->watchers.by_fd[fd].writer);
    }
    PyMem_Free(l->watchers.by_fd);
    PyMem_Free(l->watchers.fds);
    l->watchers = (Watchers){0};
}
