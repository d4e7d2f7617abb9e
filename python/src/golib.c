// Loads libspindle.so, the half of the package that is written in Go.
//
// It is loaded by the first loop and not by the import: a process that forks after Go
// has started has no Go threads in the child, and would hang there. A forked child is
// told so instead.
#include "core.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

GoLib golib;
static bool loaded, forked;
static void *library;

static char *path; // the Python side, which knows where the package is, sets it; guarded by loading
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER; // interpreters with their own GIL load it at the same time

int golib_set_path(const char *to) {
    char *copy = strdup(to);
    if (!copy) {
        PyErr_NoMemory();
        return -1;
    }
    pthread_mutex_lock(&loading);
    free(path);
    path = copy;
    pthread_mutex_unlock(&loading);
    return 0;
}

// In a forked child, loops of the parent may still be watched, closed and collected. None
// of that may enter Go.
static int refuse_new(SpindleHost *Py_UNUSED(host)) { return -ECHILD; }
static int ignore_close(int Py_UNUSED(loop)) { return 0; }
static int no_descriptor(int Py_UNUSED(loop)) { return -ECHILD; }
static int ignore_watch(int Py_UNUSED(loop), int Py_UNUSED(fd), int Py_UNUSED(interest), uint64_t *Py_UNUSED(token)) {
    return 0;
}
static int refuse_poll(int Py_UNUSED(loop), long long Py_UNUSED(timeout), SpindleEvent *Py_UNUSED(events),
                       int Py_UNUSED(capacity)) {
    return -ECHILD;
}

void golib_forked(void) {
    if (loaded) {
        forked = true;
        golib = (GoLib){refuse_new, ignore_close, no_descriptor, ignore_watch, refuse_poll, NULL, NULL, NULL, NULL};
        inspected = false; // the last ones are not called
        golog_waits = 0;
    }
}

bool golib_is_forked(void) { return forked; }

void golib_raise(int negative_errno) {
    if (forked) {
        PyErr_SetString(PyExc_RuntimeError,
                        "spindle: this process was forked from one that had used a Spindle loop already; "
                        "fork before the first loop, or start processes with the spawn or forkserver "
                        "method of multiprocessing");
        return;
    }
    if (negative_errno == SPINDLE_PANIC) {
        char text[4096] = "";
        golib.failure(text, sizeof text);
        PyErr_SetString(PyExc_RuntimeError, text);
        return;
    }
    errno = -negative_errno;
    PyErr_SetFromErrno(PyExc_OSError);
}

int golib_symbol(const char *name, void **into) {
    if (forked) {
        golib_raise(0);
        return -1;
    }
    if ((*into = dlsym(library, name)))
        return 0;
    PyErr_Format(PyExc_ImportError, "spindle: libspindle.so has no %s", name);
    return -1;
}

// load loads the library. The caller holds loading.
static int load(void) {
    if (loaded)
        return 0;
    if (!path) {
        PyErr_SetString(PyExc_RuntimeError, "spindle: the path of libspindle.so is not set");
        return -1;
    }
    struct sigaction pipe; // Go replaces it
    bool ignored = sigaction(SIGPIPE, NULL, &pipe) == 0 && pipe.sa_handler == SIG_IGN;
    if (golib_may_start() < 0)
        return -1;
    library = golib_start(path);
    if (!library) {
        PyErr_Format(PyExc_ImportError, "spindle: %s", dlerror());
        return -1;
    }
    void (*ignore_sigpipe)(void);
    int (*start)(uint32_t *log_waits);
    struct {
        const char *name;
        void **into;
    } symbols[] = {
        {"SpindleNew", (void **)&golib.new_loop},
        {"SpindleClose", (void **)&golib.close_loop},
        {"SpindleDescriptor", (void **)&golib.descriptor},
        {"SpindleWatch", (void **)&golib.watch},
        {"SpindlePoll", (void **)&golib.poll},
        {"SpindleBlocked", (void **)&golib.blocked},
        {"SpindleInspect", (void **)&golib.inspect},
        {"SpindleIgnoreSIGPIPE", (void **)&ignore_sigpipe},
        {"SpindleFailure", (void **)&golib.failure},
        {"SpindleTakeLog", (void **)&golib.take_log},
        {"SpindleStart", (void **)&start},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        if (golib_symbol(symbols[i].name, symbols[i].into) < 0)
            return -1;
    }
    if (ignored)
        ignore_sigpipe();
    start(&golog_waits);
    __atomic_store_n(&loaded, true, __ATOMIC_RELEASE);
    return 0;
}

int golib_load(void) {
    if (forked) {
        golib_raise(0);
        return -1;
    }
    if (__atomic_load_n(&loaded, __ATOMIC_ACQUIRE))
        return 0;
    pthread_mutex_lock(&loading);
    int r = load();
    pthread_mutex_unlock(&loading);
    return r;
}
