// The watchdog reports a callback while it blocks the loop. A thread looks at the loop's
// pulse, which counts callbacks, a few times in every threshold. When the loop waits, the thread
// waits too: an idle process does not wake up.
#include "core.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

struct Watchdog {
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t changed;
    Loop *loop;
    double threshold;
    bool ending; // guarded by mu
    bool parked; // guarded by mu; the loop reads it without, see watchdog_wake
};

#define LOOKS 4 // in every threshold

static bool is_finalizing(void) {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
}

// nap waits for a part of the threshold, or until the watchdog is to end.
static void nap(Watchdog *w) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    long long ns = (long long)(w->threshold * 1e9 / LOOKS) + until.tv_nsec;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    while (!w->ending && pthread_cond_timedwait(&w->changed, &w->mu, &until) != ETIMEDOUT) {
    }
}

// park waits until the loop has something to do.
static void park(Watchdog *w) {
    __atomic_store_n(&w->parked, true, __ATOMIC_SEQ_CST);
    while (!w->ending && __atomic_load_n(&w->loop->waiting, __ATOMIC_SEQ_CST))
        pthread_cond_wait(&w->changed, &w->mu);
    __atomic_store_n(&w->parked, false, __ATOMIC_SEQ_CST);
}

// report reports the callback that pulse counted last. C code that holds the GIL cannot be
// looked at; when it has ended, another callback runs, which is not to blame. The inspector
// shows that the loop is blocked all the same. In a poll, the loop waits for the GIL, which another
// thread has: no callback is to blame.
static void report(Watchdog *w, double seconds, unsigned long pulse) {
    if (is_finalizing())
        return;
    if (inspected)
        inspect_blocked(w->loop, pulse, seconds, NULL);
    Loop *l = w->loop;
    PyThreadState *here = PyThreadState_New(l->state->interpreter); // PyGILState_Ensure would take the main interpreter
    if (!here)
        return;
    PyEval_AcquireThread(here);
    if (!w->ending && !l->waiting && !l->poller && l->pulse == pulse && l->thread_id && l->thread_id != Py_None) {
        PyObject *r = PyObject_CallMethod((PyObject *)l, "_report_blocked", "d", seconds);
        if (!r)
            PyErr_WriteUnraisable((PyObject *)l);
        else if (inspected && r != Py_None)
            inspect_blocked(l, pulse, seconds, r);
        Py_XDECREF(r);
    }
    PyThreadState_Clear(here);
    PyThreadState_DeleteCurrent();
}

static void *watch(void *arg) {
    Watchdog *w = arg;
    unsigned long last = 0;
    int same = 0, idle = 0;
    bool blocked = false;
    pthread_mutex_lock(&w->mu);
    while (!w->ending) {
        nap(w);
        unsigned long pulse = __atomic_load_n(&w->loop->pulse, __ATOMIC_RELAXED);
        bool waiting = __atomic_load_n(&w->loop->waiting, __ATOMIC_SEQ_CST);
        if (blocked && (pulse != last || waiting || w->ending)) {
            blocked = false;
            if (inspected)
                inspect_unblocked(w->loop);
        }
        if (pulse != last) {
            last = pulse;
            same = idle = 0;
        } else if (waiting) {
            same = 0;
            if (++idle > LOOKS)
                park(w);
        } else if (++same == LOOKS) {
            pthread_mutex_unlock(&w->mu); // the loop may end it meanwhile
            report(w, w->threshold, pulse);
            pthread_mutex_lock(&w->mu);
            blocked = true;
        }
    }
    pthread_mutex_unlock(&w->mu);
    if (blocked && inspected)
        inspect_unblocked(w->loop);
    return NULL;
}

int watchdog_start(Loop *l, double threshold) {
    Watchdog *w = PyMem_RawCalloc(1, sizeof *w);
    if (!w) {
        PyErr_NoMemory();
        return -1;
    }
    w->loop = l;
    w->threshold = threshold;
    pthread_mutex_init(&w->mu, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &attr);
    pthread_condattr_destroy(&attr);
    sigset_t all, mask; // signals are for the threads of the program
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    int err = pthread_create(&w->thread, NULL, watch, w);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (err) {
        PyMem_RawFree(w);
        errno = err;
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    l->watchdog = w;
    return 0;
}

void watchdog_wake(Loop *l) {
    Watchdog *w = l->watchdog;
    if (w && __atomic_load_n(&w->parked, __ATOMIC_SEQ_CST) && !golib_is_forked()) {
        pthread_mutex_lock(&w->mu);
        pthread_cond_signal(&w->changed);
        pthread_mutex_unlock(&w->mu);
    }
}

void watchdog_stop(Loop *l) {
    Watchdog *w = l->watchdog;
    if (!w)
        return;
    l->watchdog = NULL;
    if (golib_is_forked())
        return; // the thread is the parent's
    pthread_mutex_lock(&w->mu);
    w->ending = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mu);
    Py_BEGIN_ALLOW_THREADS // it may want to report
    pthread_join(w->thread, NULL);
    Py_END_ALLOW_THREADS
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mu);
    PyMem_RawFree(w);
}
