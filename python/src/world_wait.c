// Waits of a program for the real system: sleeps, locks of threads, descriptors. While it waits no time
// passes in the world, and no other host runs. So they return without waiting, and raise an exception.
#include "world.h"
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static PyObject *blocked; // the exception

void world_blocked_by(PyObject *exception) {
    Py_INCREF(exception);
    Py_XSETREF(blocked, exception);
}

void world_raise_later(void) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), blocked);
    PyGILState_Release(state);
}

static int sim_clock_nanosleep(clockid_t id, int flags, const struct timespec *time, struct timespec *left) {
    if (!world_runs)
        return clock_nanosleep(id, flags, time, left);
    world_raise_later();
    return 0;
}

static int sim_nanosleep(const struct timespec *time, struct timespec *left) {
    if (!world_runs)
        return nanosleep(time, left);
    world_raise_later();
    return 0;
}

static int sim_usleep(useconds_t microseconds) {
    if (!world_runs)
        return usleep(microseconds);
    world_raise_later();
    return 0;
}

static unsigned sim_sleep(unsigned seconds) {
    if (!world_runs)
        return sleep(seconds);
    world_raise_later();
    return 0;
}

// Locks and events of package threading wait by these, if they have a time-out. The time would never come.
static int sim_sem_timedwait(sem_t *semaphore, const struct timespec *until) {
    if (!world_runs)
        return sem_timedwait(semaphore, until);
    if (sem_trywait(semaphore) == 0)
        return 0;
    world_raise_later();
    errno = ETIMEDOUT;
    return -1;
}

static int sim_sem_clockwait(sem_t *semaphore, clockid_t id, const struct timespec *until) {
    static int (*own)(sem_t *, clockid_t, const struct timespec *); // an old libc does not have it
    if (world_runs)
        return sim_sem_timedwait(semaphore, until);
    if (!own)
        own = (int (*)(sem_t *, clockid_t, const struct timespec *))dlsym(RTLD_DEFAULT, "sem_clockwait");
    return own(semaphore, id, until);
}

// other_threads reports whether Python has threads besides this one, which could release a lock.
static bool other_threads(void) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyThreadState *first = PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(PyThreadState_Get()));
    bool others = first && PyThreadState_Next(first);
    PyGILState_Release(state);
    return others;
}

static __thread sem_t *interrupted; // that a wait was interrupted for, until the exception is raised

static int raise_now(void *Py_UNUSED(ignored)) {
    interrupted = NULL;
    PyObject *exception = PyObject_CallNoArgs(blocked);
    if (exception)
        PyErr_SetObject(blocked, exception);
    Py_XDECREF(exception);
    return -1;
}

// takes reports whether a lock is released within five seconds. Other threads hold those of logging and of
// imports for a moment. The seconds are counted in short waits, because a process may be stopped meanwhile.
static bool takes(sem_t *semaphore) {
    for (int i = 0; i < 100; i++) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 50000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (sem_timedwait(semaphore, &until) == 0)
            return true;
    }
    return false;
}

// A wait without a time-out would never end if this is the only thread. Python's locks look at pending calls
// when they are interrupted, in the main thread. A caller that tries again has an error.
static int sim_sem_wait(sem_t *semaphore) {
    if (!world_runs)
        return sem_wait(semaphore);
    if (sem_trywait(semaphore) == 0 || (other_threads() && takes(semaphore))) {
        interrupted = NULL;
        return 0;
    }
    bool main_thread = syscall(SYS_gettid) == getpid();
    if (main_thread && interrupted != semaphore && Py_AddPendingCall(raise_now, NULL) == 0) {
        interrupted = semaphore;
        errno = EINTR;
        return -1;
    }
    interrupted = NULL;
    world_raise_later();
    errno = EDEADLK;
    return -1;
}

// Waits for descriptors. Those of simulated sockets are not the system's, so that no answer would be right.
// The test itself may wait, between the steps of programs.
static int no_descriptors(void) {
    world_raise_later();
    return 0;
}

static int sim_select(int n, fd_set *readable, fd_set *writable, fd_set *failed, struct timeval *timeout) {
    return world_steps ? no_descriptors() : select(n, readable, writable, failed, timeout);
}

static int sim_poll(struct pollfd *fds, nfds_t n, int timeout) {
    return world_steps ? no_descriptors() : poll(fds, n, timeout);
}

static int sim_epoll_wait(int epoll, struct epoll_event *events, int n, int timeout) {
    return world_steps ? no_descriptors() : epoll_wait(epoll, events, n, timeout);
}

void *world_wait(const char *name) {
    static const struct {
        const char *name;
        void *by;
    } waits[] = {
        {"clock_nanosleep", sim_clock_nanosleep},
        {"nanosleep", sim_nanosleep},
        {"usleep", sim_usleep},
        {"sleep", sim_sleep},
        {"sem_wait", sim_sem_wait},
        {"sem_timedwait", sim_sem_timedwait},
        {"sem_clockwait", sim_sem_clockwait},
        {"select", sim_select},
        {"poll", sim_poll},
        {"epoll_wait", sim_epoll_wait},
    };
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
        if (strcmp(name, waits[i].name) == 0)
            return waits[i].by;
    return NULL;
}
