// What is called when a descriptor is ready: a reader and a writer, as in
// loop.add_reader, or a transport. Go is told only of changes.
//
// Any thread may change a watch: the collector finalizes forgotten connections in whichever thread
// allocates. While another thread polls, Go's loop is that thread's. Then the change is noted, the
// poll is ended, and the thread that polled tells Go.
#include "world.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

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
    int row = (int)spindle_token_row(token);
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
    uint32_t row = spindle_token_row(token);
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

// wanted returns what the program waits for.
static int wanted(Watcher *w) {
    return w->transport_interest | (w->reader ? SPINDLE_READ : 0) | (w->writer ? SPINDLE_WRITE : 0);
}

// tell tells Go to wait for interest on fd. It returns a negative errno.
static int tell(Loop *l, Watcher *w, int fd, int interest) {
    uint64_t token = w->token;
    int r = l->simulated ? world_watch(l, fd, interest) : golib.watch(l->id, fd, interest, &token);
    if (r < 0)
        interest = 0; // nothing is watched
    if (interest & ~w->interest)
        l->poll_due = true; // it may be ready already, and the next tick of asyncio would see it
    l->watchers.used += (interest != 0) - (w->interest != 0);
    w->interest = interest;
    if (r == 0 && token != w->token)
        know(l, token, fd);
    return r;
}

// try_out returns a negative errno if fd cannot be watched.
static int try_out(int fd) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        return -errno;
    int r = epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &(struct epoll_event){0}) < 0 ? -errno : 0;
    close(epoll);
    return r;
}

static bool polled_elsewhere(Loop *l) {
    return l->poller && l->poller != PyThread_get_thread_ident() && !golib_is_forked();
}

// update tells Go what to wait for on fd, if that has changed. It returns a negative errno, and
// runs no code of Python.
static int update(Loop *l, Watcher *w, int fd) {
    int interest = wanted(w);
    if (l->id < 0 || (w->interest == interest && !w->stale))
        return 0;
    if (polled_elsewhere(l)) {
        int r = interest ? try_out(fd) : 0;
        w->stale = l->watchers.stale = true;
        loop_wake(l);
        return r;
    }
    if (w->stale) { // the number may be another file's by now
        tell(l, w, fd, 0);
        w->stale = false;
    }
    int r = tell(l, w, fd, interest);
    return interest ? r : 0;
}

void watch_catch_up(Loop *l) {
    if (!l->watchers.stale)
        return;
    l->watchers.stale = false;
    for (int fd = 0; fd < l->watchers.len; fd++) {
        Watcher *w = &l->watchers.by_fd[fd];
        int r = w->stale ? update(l, w, fd) : 0;
        if (r < 0 && r != -EBADF) { // it was tried out, and closed since if it is not a descriptor
            golib_raise(r);
            PyErr_WriteUnraisable((PyObject *)l);
        }
    }
}

int watch_set(Loop *l, int fd, int direction, Handle *h, PyObject *file) {
    if (fd >= l->watchers.len) {
        if (!h)
            return 0;
        if (!l->simulated && fcntl(fd, F_GETFD) < 0) { // before the table grows for a wrong number
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
    }
    Watcher *w = watcher(l, fd);
    if (!w)
        return -1;
    Handle **at = direction == SPINDLE_READ ? &w->reader : &w->writer;
    Handle *old = *at, *refused = NULL;
    *at = (Handle *)Py_XNewRef((PyObject *)h);
    if (h)
        handle_track(h); // it stays for long
    int r = update(l, w, fd);
    if (r < 0) { // the descriptor cannot be watched
        refused = *at;
        *at = NULL;
    }
    PyObject *old_file = w->file;
    w->file = wanted(w) && !PyLong_Check(file) ? Py_NewRef(file) : NULL;
    if (old)
        handle_cancel(old);
    Py_XDECREF(old);
    Py_XDECREF(refused);
    Py_XDECREF(old_file);
    if (r < 0)
        golib_raise(r);
    return r < 0 ? -1 : 0;
}

int watch_transport(Loop *l, int fd, Transport *t, int interest) {
    if (l->id < 0)
        return 0; // the loop is closed
    Watcher *w = watcher(l, fd);
    if (!w)
        return -1;
    Transport *old = w->transport, *refused = NULL;
    w->transport = interest ? (Transport *)Py_NewRef((PyObject *)t) : NULL;
    w->transport_interest = interest;
    int r = update(l, w, fd);
    if (r < 0) {
        refused = w->transport;
        w->transport = NULL;
        w->transport_interest = 0;
    }
    Py_XDECREF((PyObject *)old);
    Py_XDECREF((PyObject *)refused);
    if (r < 0)
        golib_raise(r);
    return r < 0 ? -1 : 0;
}

int watch_find(Loop *l, PyObject *file) {
    for (int fd = 0; fd < l->watchers.len; fd++)
        if (l->watchers.by_fd[fd].file == file)
            return fd;
    return -1;
}

int watch_deliver(Loop *l, SpindleEvent *e) {
    if (e->fd >= l->watchers.len)
        return 0; // the loop was closed since
    Watcher *w = &l->watchers.by_fd[e->fd];
    if (w->poll == l->polls)
        return 0;
    w->poll = l->polls;
    for (int direction = SPINDLE_READ; direction <= SPINDLE_WRITE; direction <<= 1) {
        if (!(e->ready & wanted(w) & direction))
            continue;
        Handle *h = direction == SPINDLE_READ ? w->reader : w->writer;
        if (h ? ready_push(&l->ready, (PyObject *)h, 0) < 0
              : ready_push(&l->ready, (PyObject *)w->transport, direction) < 0)
            return -1;
    }
    return 1;
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
    Watchers all = l->watchers;
    l->watchers = (Watchers){0};
    for (int fd = 0; fd < all.len; fd++) {
        Py_CLEAR(all.by_fd[fd].transport);
        Py_CLEAR(all.by_fd[fd].file);
        Py_CLEAR(all.by_fd[fd].reader);
        Py_CLEAR(all.by_fd[fd].writer);
    }
    PyMem_Free(all.by_fd);
    PyMem_Free(all.fds);
}
