// Starts Go's runtime, which is a guest in a process of Python's.
//
// Its threads block all signals: the kernel gives a signal that Python's threads have blocked, for
// sigtimedwait or a signalfd, to any thread that has not, and its default action ends the process.
// Threads of Go have the mask that the runtime has found when it started. SIGCHLD, SIGPROF and the
// signals of faults are exceptions that the runtime makes.
//
// It has few threads: its first one, its monitor, and a template for others; see oneprocessor.c.
//
// The runtime ends the process if it gets no memory or no thread. So both are tried out first.
#include "core.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>

#define ADDRESSES ((size_t)1 << 30) // bytes that the runtime and the stacks of its threads reserve
#define THREADS 8                     // that the runtime starts, and one for the watchdog

static void *wait_for(void *semaphore) {
    sem_wait(semaphore);
    return NULL;
}

// may_start_threads returns an errno if the process cannot have THREADS more threads.
static int may_start_threads(void) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    sem_t end;
    sem_init(&end, 0, 0);
    pthread_t threads[THREADS];
    int n = 0, err = 0;
    for (; n < THREADS && !err; n += !err)
        err = pthread_create(&threads[n], &small, wait_for, &end);
    for (int i = 0; i < n; i++)
        sem_post(&end);
    while (n > 0)
        pthread_join(threads[--n], NULL);
    sem_destroy(&end);
    pthread_attr_destroy(&small);
    return err;
}

int golib_may_start(void) {
    void *space = mmap(NULL, ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) {
        PyErr_Format(PyExc_MemoryError, "spindle: Go's runtime needs %zu MB of address space; raise the limit (ulimit -v)",
                     ADDRESSES >> 20);
        return -1;
    }
    munmap(space, ADDRESSES);
    int err = may_start_threads();
    if (!err)
        return 0;
    PyErr_Format(PyExc_RuntimeError, "spindle: Go's runtime needs %d threads: %s; raise the limit (ulimit -u, or pids.max)",
                 THREADS, strerror(err));
    return -1;
}

void *golib_start(const char *path) {
    sigset_t all, mask;
    sigfillset(&all);
    struct sigaction urgent;
    sigaction(SIGURG, NULL, &urgent);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    OneProcessor processors;
    oneprocessor_begin(&processors);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void (*first)(char *text, int capacity) = library ? dlsym(library, "SpindleFailure") : NULL;
    if (first)
        first(NULL, 0); // returns when the runtime has started
    oneprocessor_end(&processors);
    sigaction(SIGURG, &urgent, NULL); // the runtime does not use it, see setup.py
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    return library;
}
