// Polling: Go waits for descriptors, one call for each tick.
//
// Entering Go costs more than a callback, and keeps a thread of Go's runtime awake for a moment.
// Under load something is nearly always ready, and then the tick need not wait. So a poll that
// must not wait, and one that probably will not, first asks the epoll instance of Go's loop from
// here, and enters Go only if nothing is ready, or something that is Go's. Goroutines that post to
// Go's loop do not wake it then, so Go gets a turn every GO_PAUSE in any case.
#include "core.h"
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#define GO_PAUSE 5000000 // nanoseconds

enum { GO = -1 }; // Go has to poll

// ask asks the kernel what is ready now and returns the number of events. It needs no GIL.
static int ask(Loop *l, struct epoll_event *got) {
    if (l->server || golib_is_forked() || l->last_poll - l->last_turn > GO_PAUSE)
        return GO;
    int n = (int)syscall(SYS_epoll_pwait, l->epoll_fd, got, EVENTS, 0, NULL, 0);
    return n < 0 ? GO : n;
}

// translate stores what the kernel has answered in l->events. It returns GO if Go's loop
// has something to do. The events that were fetched then come again: watches are
// level-triggered, and Go knows about the exception, its waker.
static int translate(Loop *l, const struct epoll_event *got, int n) {
    for (int i = 0; i < n; i++) {
        SpindleEvent *e = &l->events[i];
        *e = (SpindleEvent){.fd = watch_fd(l, got[i].data.u64)};
        if (e->fd < 0)
            return GO;
        if (got[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
            e->ready |= SPINDLE_READ;
        if (got[i].events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
            e->ready |= SPINDLE_WRITE;
    }
    return n;
}

static int turn(Loop *l, long long timeout_ns) {
    l->last_turn = INT64_MAX; // set in poll_once, with the clock that it reads
    return golib.poll(l->id, timeout_ns, l->events, EVENTS);
}

// send_and_turn lets Go turn without waiting. Go sends the responses of a server then, and other threads can have the
// GIL meanwhile: they would wait for sys.getswitchinterval() otherwise, which is long for a request.
static int send_and_turn(Loop *l) {
    l->suspended = PyEval_SaveThread();
    int n = turn(l, 0);
    PyEval_RestoreThread(l->suspended);
    l->suspended = NULL;
    return n;
}

// poll_at_once polls without waiting. Without a server it does not let other threads run.
static int poll_at_once(Loop *l) {
    if (l->server)
        return send_and_turn(l);
    struct epoll_event got[EVENTS];
    int n = ask(l, got);
    if (n != GO)
        n = translate(l, got, n);
    return n == GO ? turn(l, 0) : n;
}

static int poll_and_wait(Loop *l, long long timeout_ns) {
    struct epoll_event got[EVENTS];
    int asked = 0, n = 0;
    __atomic_store_n(&l->waiting, true, __ATOMIC_SEQ_CST); // the watchdog reads it
    l->suspended = PyEval_SaveThread();
    if (l->lively)
        asked = ask(l, got);
    if (asked <= 0)
        n = turn(l, timeout_ns);
    PyEval_RestoreThread(l->suspended);
    l->suspended = NULL;
    __atomic_store_n(&l->waiting, false, __ATOMIC_SEQ_CST);
    if (asked > 0 && (n = translate(l, got, asked)) == GO)
        n = turn(l, 0);
    watchdog_wake(l);
    return n;
}

// poll polls, and tells Go what other threads have changed meanwhile.
static int poll(Loop *l, long long timeout_ns) {
    l->poller = PyThread_get_thread_ident();
    int n = timeout_ns == 0 ? poll_at_once(l) : poll_and_wait(l, timeout_ns);
    l->poller = 0;
    watch_catch_up(l);
    return n;
}

// deliver queues what is ready. It returns how many descriptors this poll has not delivered before.
static int deliver(Loop *l, int n) {
    int fresh = 0;
    for (int i = 0; i < n; i++) {
        if (l->events[i].fd == l->wake_fd) {
            uint64_t count;
            if (read(l->wake_fd, &count, sizeof count) > 0)
                l->woken = false;
            continue;
        }
        int r = watch_deliver(l, &l->events[i]);
        if (r < 0)
            return -1;
        fresh += r;
    }
    return fresh;
}

// poll_once polls and queues what is ready. It waits at most timeout_ns, without limit if that
// is negative.
int poll_once(Loop *l, long long timeout_ns) {
    if (l->id < 0 || l->poller) { // a callback of this tick has closed the loop, or runs inside a poll
        PyErr_SetString(PyExc_RuntimeError, l->poller ? "This event loop is already running" : "Event loop is closed");
        return -1;
    }
    l->since_poll = 0;
    l->poll_due = false;
    if (l->server)
        l->service->before_poll(l, timeout_ns != 0);
    int n = poll(l, timeout_ns);
    if (timeout_ns != 0) {
        l->poll_after /= 2; // the next callbacks may take longer
        if (PyErr_CheckSignals() < 0)
            return -1;
    }
    if (l->interrupt) {
        PyErr_SetObject((PyObject *)Py_TYPE(l->interrupt), l->interrupt);
        Py_CLEAR(l->interrupt);
        return -1;
    }
    l->last_poll = clock_ns();
    if (l->last_turn > l->last_poll)
        l->last_turn = l->last_poll;
    l->turned = l->virtual_time ? l->now : (double)l->last_poll * 1e-9;
    if (n < 0) {
        golib_raise(n);
        return -1;
    }
    l->lively = n > 1;
    l->polls++;
    int fresh = deliver(l, n);
    while (fresh > 0 && n == EVENTS && l->id >= 0) { // a tick sees all that is ready, as asyncio's does
        n = poll(l, 0);
        fresh = n < 0 ? 0 : deliver(l, n);
    }
    if (fresh < 0)
        return -1;
    if (l->server && l->service->after_poll(l) < 0)
        return -1;
    return golog_has() ? golog_deliver() : 0;
}
