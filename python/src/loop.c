// The hot half of a loop: callbacks, timers and the tick. The rest is loop.py: its
// class Loop inherits from this type and from asyncio's selector loop.
//
// A tick is asyncio's: poll for descriptors, queue the due timers, run what is queued.
// A tick that has something to run polls only once in many callbacks: in POLL_EVERY of them if they
// are short, and after each tick if they take longer than LONG_BATCH; but no sooner than POLL_PAUSE
// after the last poll. After a connection was written to or closed, the next tick polls, as
// asyncio's does: the other end may be on the same loop. In debug mode every tick polls.
#include "world.h"
#include <errno.h>
#include <structmember.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define POLL_EVERY 61
#define POLL_PAUSE 100000          // nanoseconds
#define LONG_BATCH 1000000         // nanoseconds; after that, descriptors have waited too long
#define LONGEST_WAIT (24 * 3600.0) // asyncio's
#define SLICE 0.02                 // seconds; then a thread may have ended without waking the loop
#define TIMER_SLACK 5000           // nanoseconds; Linux lets a wait end 50,000 too late

// program_time asks the clock that the program has put in place of the loop's.
static double program_time(Loop *l) {
    PyObject *r = PyObject_CallMethod((PyObject *)l, "time", NULL);
    double now = r ? PyFloat_AsDouble(r) : -1;
    Py_XDECREF(r);
    return now;
}

static double own_time(Loop *l) {
    if (l->virtual_time)
        return l->now;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double loop_time(Loop *l) { return l->own_clock ? program_time(l) : own_time(l); }

// class_has_clock reports whether a subclass has replaced the method time.
static bool class_has_clock(PyTypeObject *type) {
    PyObject *name = PyUnicode_InternFromString("time");
    bool has = name && _PyType_Lookup(type, name) != _PyType_Lookup(state()->types.loop, name);
    Py_XDECREF(name);
    return has;
}

// setattro notices a clock that the program sets or removes; libraries do so in their tests.
static int loop_setattro(PyObject *self, PyObject *name, PyObject *value) {
    if (PyObject_GenericSetAttr(self, name, value) < 0)
        return -1;
    if (PyUnicode_CompareWithASCIIString(name, "time") == 0)
        ((Loop *)self)->own_clock = value || class_has_clock(Py_TYPE(self));
    return 0;
}

static PyObject *loop_new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs)) {
    if (state_has_ended() || golib_load() < 0)
        return NULL;
    Loop *l = (Loop *)type->tp_alloc(type, 0);
    if (!l)
        return NULL;
    l->state = state();
    l->wake_fd = -1;
    l->own_clock = class_has_clock(type);
    l->thread_id = Py_NewRef(Py_None);
    l->id = golib.new_loop(&(SpindleHost){l, &l->pulse, &l->running, &l->waiting, inspect_tasks});
    if (l->id < 0) {
        golib_raise(l->id);
        l->id = -1;
        goto failed;
    }
    l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (l->wake_fd < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        goto failed;
    }
    if (watch_wake_fd(l) < 0)
        goto failed;
    l->epoll_fd = golib.descriptor(l->id);
    if (!(l->buffer = PyMem_RawMalloc(READ_BUFFER))) {
        PyErr_NoMemory();
        goto failed;
    }
    loops_add(l);
    return (PyObject *)l;
failed:
    l->closed = true;
    Py_DECREF(l);
    return NULL;
}

static int loop_traverse(Loop *l, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(l));
    Py_VISIT(l->thread_id);
    Py_VISIT(l->task_factory);
    Py_VISIT(l->server);
    Py_VISIT(l->interrupt);
    Py_VISIT((PyObject *)l->world);
    int r = ready_visit(&l->ready, visit, arg);
    if (!r)
        r = timers_visit(&l->timers, visit, arg);
    return r ? r : watch_visit(l, visit, arg);
}

static int loop_clear(Loop *l) {
    Py_CLEAR(l->thread_id);
    Py_CLEAR(l->interrupt);
    Py_CLEAR(l->world);
    Py_CLEAR(l->task_factory);
    ready_clear(&l->ready);
    timers_clear(&l->timers);
    watch_clear(l);
    return 0;
}

// release gives the loop's descriptors back.
static void release(Loop *l) {
    if (l->simulated)
        l->buffer = NULL; // all of them share it
    else if (l->id >= 0)
        golib.close_loop(l->id);
    l->id = -1;
    if (l->server)
        l->service->loop_closed(l);
    if (l->wake_fd >= 0)
        close(l->wake_fd);
    l->wake_fd = -1;
    PyMem_RawFree(l->buffer);
    l->buffer = NULL;
    steps_clear(l);
}

static void loop_dealloc(Loop *l) {
    PyObject_GC_UnTrack(l);
    loops_remove(l);
    loop_clear(l);
    release(l);
    PyTypeObject *type = Py_TYPE(l);
    type->tp_free((PyObject *)l);
    Py_DECREF(type);
}

// Calls.

int loop_check_thread(Loop *l) {
    if (!l->debug)
        return 0;
    PyObject *r = PyObject_CallMethodNoArgs((PyObject *)l, names.check_thread);
    Py_XDECREF(r);
    return r ? 0 : -1;
}

static int check(Loop *l, PyObject *callback, const char *method, bool any_thread) {
    if (l->closed) {
        PyErr_SetString(PyExc_RuntimeError, "Event loop is closed");
        return -1;
    }
    if (!l->debug)
        return 0;
    if (!any_thread && loop_check_thread(l) < 0)
        return -1;
    PyObject *r = PyObject_CallMethod((PyObject *)l, "_check_callback", "Os", callback, method);
    Py_XDECREF(r);
    return r ? 0 : -1;
}

// context_of returns the one keyword argument, context. It returns 1 if there are others.
static inline int context_of(Loop *l, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **context) {
    PyObject *context_name = l->state->words.context;
    *context = NULL;
    Py_ssize_t n = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i);
        if (name != context_name && PyUnicode_Compare(name, context_name) != 0)
            return 1;
        *context = args[nargs + i];
    }
    return 0;
}

static Handle *queue(Loop *l, PyObject *callback, PyObject *const *args, Py_ssize_t nargs, PyObject *context) {
    Handle *h = handle_new(l->state->types.handle, l, callback, args, nargs, context);
    if (h && ready_push(&l->ready, (PyObject *)h, 0) < 0)
        Py_CLEAR(h);
    if (l->simulated)
        world_touch(l);
    return h;
}

// by_name calls method where arguments are given by name, which is rare.
static PyObject *by_name(Loop *l, const char *method, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    PyObject *positional = PyTuple_New(nargs), *named = PyDict_New(), *r = NULL;
    if (positional && named) {
        for (Py_ssize_t i = 0; i < nargs; i++)
            PyTuple_SET_ITEM(positional, i, Py_NewRef(args[i]));
        Py_ssize_t i = 0;
        for (; i < PyTuple_GET_SIZE(kwnames); i++)
            if (PyDict_SetItem(named, PyTuple_GET_ITEM(kwnames, i), args[nargs + i]) < 0)
                break;
        if (i == PyTuple_GET_SIZE(kwnames))
            r = PyObject_CallMethod((PyObject *)l, "_call_by_name", "sOO", method, positional, named);
    }
    Py_XDECREF(positional);
    Py_XDECREF(named);
    return r;
}

static int need(Py_ssize_t nargs, Py_ssize_t least, const char *method, const char *missing) {
    if (nargs >= least)
        return 0;
    PyErr_Format(PyExc_TypeError, "%s() missing 1 required positional argument: '%s'", method, missing);
    return -1;
}

static PyObject *loop_meth_call_soon(Loop *l, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    PyObject *context;
    if (context_of(l, args, nargs, kwnames, &context))
        return by_name(l, "call_soon", args, nargs, kwnames);
    if (need(nargs, 1, "call_soon", "callback") < 0)
        return NULL;
    if ((l->closed || l->debug) && check(l, args[0], "call_soon", false) < 0)
        return NULL;
    return (PyObject *)queue(l, args[0], args + 1, nargs - 1, context);
}

// loop_wake ends a poll of another thread. The GIL makes the order: the loop sets waiting before
// it releases the GIL to wait, and has seen all that was queued before.
void loop_wake(Loop *l) {
    if (l->waiting && !l->woken) {
        l->woken = true;
        uint64_t one = 1;
        if (write(l->wake_fd, &one, sizeof one) < 0)
            l->woken = false; // cannot happen: the counter does not overflow
    }
}

static PyObject *loop_meth_call_soon_threadsafe(Loop *l, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    PyObject *context;
    if (context_of(l, args, nargs, kwnames, &context))
        return by_name(l, "call_soon_threadsafe", args, nargs, kwnames);
    if (need(nargs, 1, "call_soon_threadsafe", "callback") < 0)
        return NULL;
    if ((l->closed || l->debug) && check(l, args[0], "call_soon_threadsafe", true) < 0)
        return NULL;
    Handle *h = queue(l, args[0], args + 1, nargs - 1, context);
    if (h)
        loop_wake(l);
    return (PyObject *)h;
}

static PyObject *schedule(Loop *l, double when, PyObject *const *args, Py_ssize_t nargs, PyObject *context) {
    if (Py_IS_NAN(when)) { // it has no place in the order of the timers
        PyErr_SetString(PyExc_ValueError, "spindle: the time of a callback is not a number (nan)");
        return NULL;
    }
    Handle *h = handle_new(l->state->types.timer_handle, l, args[1], args + 2, nargs - 2, context);
    if (!h)
        return NULL;
    h->when = when;
    if (timers_add(&l->timers, h) < 0)
        Py_CLEAR(h);
    if (l->simulated)
        world_touch(l);
    return (PyObject *)h;
}

static PyObject *loop_meth_call_later(Loop *l, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    PyObject *context;
    if (context_of(l, args, nargs, kwnames, &context))
        return by_name(l, "call_later", args, nargs, kwnames);
    if (need(nargs, 1, "call_later", "delay") < 0 || need(nargs, 2, "call_later", "callback") < 0)
        return NULL;
    if (args[0] == Py_None) {
        PyErr_SetString(PyExc_TypeError, "delay must not be None");
        return NULL;
    }
    double delay = PyFloat_AsDouble(args[0]);
    if (delay == -1 && PyErr_Occurred())
        return NULL;
    if ((l->closed || l->debug) && check(l, args[1], "call_later", false) < 0)
        return NULL;
    double now = loop_time(l);
    if (l->own_clock && PyErr_Occurred())
        return NULL;
    return schedule(l, now + delay, args, nargs, context);
}

static PyObject *loop_meth_call_at(Loop *l, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    PyObject *context;
    if (context_of(l, args, nargs, kwnames, &context))
        return by_name(l, "call_at", args, nargs, kwnames);
    if (need(nargs, 1, "call_at", "when") < 0 || need(nargs, 2, "call_at", "callback") < 0)
        return NULL;
    if (args[0] == Py_None) {
        PyErr_SetString(PyExc_TypeError, "when cannot be None");
        return NULL;
    }
    double when = PyFloat_AsDouble(args[0]);
    if (when == -1 && PyErr_Occurred())
        return NULL;
    if ((l->closed || l->debug) && check(l, args[1], "call_at", false) < 0)
        return NULL;
    return schedule(l, when, args, nargs, context);
}

static PyObject *loop_meth_time(Loop *l, PyObject *Py_UNUSED(ignored)) { return PyFloat_FromDouble(own_time(l)); }

// add_callback queues a handle that exists: Spindle's or asyncio's.
static PyObject *loop_meth_add_callback(Loop *l, PyObject *handle) {
    if (ready_push(&l->ready, handle, 0) < 0)
        return NULL;
    loop_wake(l);
    Py_RETURN_NONE;
}

static PyObject *loop_meth_stop(Loop *l, PyObject *Py_UNUSED(ignored)) {
    l->stopping = true;
    Py_RETURN_NONE;
}

static PyObject *loop_meth_get_debug(Loop *l, PyObject *Py_UNUSED(ignored)) { return PyBool_FromLong(l->debug); }

static PyObject *loop_meth_wake(Loop *l, PyObject *Py_UNUSED(ignored)) {
    loop_wake(l);
    Py_RETURN_NONE;
}

// Tasks and futures. What is not the common case is left to asyncio's loop.

static PyObject *loop_meth_create_future(Loop *l, PyObject *Py_UNUSED(ignored)) {
    const Names *words = &l->state->words;
    PyObject *args[] = {(PyObject *)l};
    return PyObject_Vectorcall(words->future_type, args, 0, words->loop_keyword);
}

static PyObject *loop_meth_create_task(Loop *l, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    const Names *words = &l->state->words;
    bool named = kwnames && PyTuple_GET_SIZE(kwnames) == 1 && PyTuple_GET_ITEM(kwnames, 0) == words->name;
    if (nargs == 1 && (!kwnames || named) && !l->closed && !l->debug && (!l->task_factory || l->task_factory == Py_None)) {
        PyObject *task[] = {args[0], (PyObject *)l, named ? args[1] : NULL};
        return PyObject_Vectorcall(words->task_type, task, 1, named ? words->loop_and_name_keywords : words->loop_keyword);
    }
    Py_ssize_t n = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    PyObject *all[8] = {(PyObject *)l};
    if (n > 7) {
        PyErr_SetString(PyExc_TypeError, "create_task() got too many arguments");
        return NULL;
    }
    memcpy(all + 1, args, n * sizeof *all);
    PyObject *created = PyObject_Vectorcall(names.base_create_task, all, nargs + 1, kwnames);
    if (created)
        steps_note_task(l, created); // an eager task has taken a step
    return created;
}

// loop_run_first_step runs the first step of a task that was just created, when before callbacks were queued: the task
// begins in this tick and not in the next one. Other callbacks keep their places.
int loop_run_first_step(Loop *l, PyObject *task, size_t before) {
    if (ready_len(&l->ready) != before + 1 || (l->task_factory && l->task_factory != Py_None))
        return 0; // an eager task has taken its first step
    ReadyItem item = l->ready.items[(l->ready.tail - 1) & l->ready.mask];
    if (item.ready || !Handle_Check(item.what) || steps_task(((Handle *)item.what)->callback) != task)
        return 0;
    l->ready.tail--;
    __atomic_store_n(&l->pulse, l->pulse + 1, __ATOMIC_RELAXED);
    int r = handle_run((Handle *)item.what);
    handle_track((Handle *)item.what);
    Py_DECREF(item.what);
    return r;
}

static PyObject *loop_meth_begin_task(Loop *l, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "_begin_task() takes a coroutine and a name");
        return NULL;
    }
    size_t before = ready_len(&l->ready);
    PyObject *all[] = {(PyObject *)l, args[0], args[1]};
    PyObject *task = PyObject_VectorcallMethod(names.create_task, all, 2, names.name_keyword);
    if (task && loop_run_first_step(l, task, before) < 0)
        Py_CLEAR(task);
    return task;
}

// Descriptors.

static PyObject *add_watch(Loop *l, PyObject *const *args, Py_ssize_t nargs, int direction) {
    if (need(nargs, 1, "add_reader or add_writer", "fd") < 0 ||
        need(nargs, 2, "add_reader or add_writer", "callback") < 0)
        return NULL;
    if (l->closed) {
        PyErr_SetString(PyExc_RuntimeError, "Event loop is closed");
        return NULL;
    }
    int fd = PyObject_AsFileDescriptor(args[0]);
    if (fd < 0 || loop_check_thread(l) < 0)
        return NULL;
    Handle *h = handle_new(l->state->types.handle, l, args[1], args + 2, nargs - 2, NULL);
    if (h && watch_set(l, fd, direction, h, args[0]) < 0)
        Py_CLEAR(h);
    return (PyObject *)h;
}

static PyObject *loop_meth_add_reader(Loop *l, PyObject *const *args, Py_ssize_t nargs) {
    return add_watch(l, args, nargs, SPINDLE_READ);
}

static PyObject *loop_meth_add_writer(Loop *l, PyObject *const *args, Py_ssize_t nargs) {
    return add_watch(l, args, nargs, SPINDLE_WRITE);
}

static PyObject *remove_watch(Loop *l, PyObject *fileobj, int direction) {
    if (l->closed)
        Py_RETURN_FALSE;
    int fd = PyObject_AsFileDescriptor(fileobj);
    if (fd < 0) {
        if (!PyErr_ExceptionMatches(PyExc_ValueError))
            return NULL;
        PyErr_Clear(); // a closed socket
        fd = watch_find(l, fileobj);
        if (fd < 0)
            Py_RETURN_FALSE;
    }
    if (loop_check_thread(l) < 0)
        return NULL;
    if (fd >= l->watchers.len)
        Py_RETURN_FALSE;
    Watcher *w = &l->watchers.by_fd[fd];
    bool had = direction == SPINDLE_READ ? w->reader : w->writer;
    if (watch_set(l, fd, direction, NULL, fileobj) < 0)
        return NULL;
    return PyBool_FromLong(had);
}

static PyObject *loop_meth_remove_reader(Loop *l, PyObject *fd) { return remove_watch(l, fd, SPINDLE_READ); }
static PyObject *loop_meth_remove_writer(Loop *l, PyObject *fd) { return remove_watch(l, fd, SPINDLE_WRITE); }

static PyObject *loop_meth_watched(Loop *l, PyObject *fd_object) {
    int fd = PyLong_AsLong(fd_object);
    if (fd == -1 && PyErr_Occurred())
        return NULL;
    return PyLong_FromLong(fd >= 0 && fd < l->watchers.len ? l->watchers.by_fd[fd].interest : 0);
}

// watched_fds returns the descriptors that are watched.
static PyObject *loop_meth_watched_fds(Loop *l, PyObject *Py_UNUSED(ignored)) {
    PyObject *list = PyList_New(0);
    for (int fd = 0; list && fd < l->watchers.len; fd++) {
        PyObject *number = l->watchers.by_fd[fd].interest ? PyLong_FromLong(fd) : NULL;
        if (number && PyList_Append(list, number) < 0)
            Py_CLEAR(list);
        Py_XDECREF(number);
    }
    return list;
}

static PyObject *loop_meth_last_step(Loop *l, PyObject *task) {
    double at = steps_last(l, task);
    if (at < 0)
        Py_RETURN_NONE;
    return PyFloat_FromDouble(at);
}

// The tick.

// poll_is_due reports whether a tick that has something to run polls as well.
static bool poll_is_due(Loop *l) {
    if (l->stopping || l->debug || l->poll_due)
        return true;
    if (l->since_poll < l->poll_after)
        return false;
    int64_t took = clock_ns() - l->last_poll;
    if (took > LONG_BATCH)
        l->poll_after = (int)(l->since_poll * LONG_BATCH / took);
    else if (took < LONG_BATCH / 2)
        l->poll_after = l->poll_after < POLL_EVERY / 2 ? 2 * l->poll_after + 1 : POLL_EVERY;
    l->since_poll = 0;
    return took >= POLL_PAUSE;
}

// wait_ns returns how long the loop may wait for descriptors.
static long long wait_ns(Loop *l) {
    if (ready_len(&l->ready) > 0 || l->stopping)
        return 0;
    double now = l->timers.len > 0 ? loop_time(l) : 0; // may run code of the program
    if (ready_len(&l->ready) > 0 || (l->own_clock && PyErr_Occurred()))
        return 0;
    if (l->timers.len == 0)
        return -1;
    double wait = l->timers.heap[0]->when - now;
    if (wait <= 0)
        return 0;
    return (long long)((wait < LONGEST_WAIT ? wait : LONGEST_WAIT) * 1e9) + 1;
}

static int queue_due_timers(Loop *l) {
    double now = loop_time(l);
    if (l->own_clock && PyErr_Occurred())
        return -1;
    double end = l->virtual_time && !l->simulated ? now : now + 1e-9; // the time of a test is exact
    while (l->timers.len > 0 && l->timers.heap[0]->when <= end) {
        Handle *h = timers_pop(&l->timers);
        int r = ready_push(&l->ready, (PyObject *)h, 0);
        Py_DECREF(h);
        if (r < 0)
            return -1;
    }
    return 0;
}

static int run_other(PyObject *handle) { // asyncio's Handle
    PyObject *cancelled = PyObject_CallMethodNoArgs(handle, names.cancelled);
    int yes = cancelled ? PyObject_IsTrue(cancelled) : -1;
    Py_XDECREF(cancelled);
    if (yes)
        return yes < 0 ? -1 : 0;
    PyObject *r = PyObject_CallMethodNoArgs(handle, names.run);
    Py_XDECREF(r);
    return r ? 0 : -1;
}

static int run_item(ReadyItem item) {
    if (item.ready)
        return transport_ready((Transport *)item.what, item.ready);
    if (!Handle_Check(item.what))
        return run_other(item.what);
    int r = handle_run((Handle *)item.what);
    handle_track((Handle *)item.what);
    return r;
}

// run_timed is run_item in debug mode, where slow callbacks are reported.
static int run_timed(Loop *l, ReadyItem item) {
    double begin = own_time(l);
    if (run_item(item) < 0)
        return -1;
    PyObject *r = PyObject_CallMethod((PyObject *)l, "_callback_took", "Od", item.what, own_time(l) - begin);
    Py_XDECREF(r);
    return r ? 0 : -1;
}

// next_timer returns the time of the next timer that will fire, or infinity.
static double next_timer(Loop *l) { return l->timers.len > 0 ? l->timers.heap[0]->when : Py_HUGE_VAL; }

static void move_clock(Loop *l, double to) {
    if (l->now < to)
        l->turned = l->now = to;
    l->waited = 0;
}

// wait_really waits for what is outside of the process, for SLICE at most. The clock moves to the
// next timer when the loop has really waited for as long.
static int wait_really(Loop *l) {
    double left = next_timer(l) - l->now - l->waited;
    if (left > 0) {
        double slice = left < SLICE ? left : SLICE;
        int64_t began = clock_ns();
        if (poll_once(l, (long long)(slice * 1e9) + 1) < 0)
            return -1;
        l->waited += (double)(clock_ns() - began) * 1e-9;
    }
    if (ready_len(&l->ready) == 0 && l->waited >= next_timer(l) - l->now)
        move_clock(l, next_timer(l));
    return 0;
}

// skip_wait polls, and if that brings nothing, moves a virtual clock to the next timer. While
// threads work, it waits for them instead: virtual time stands still.
static int skip_wait(Loop *l) {
    if (poll_once(l, 0) < 0)
        return -1;
    if (ready_len(&l->ready) > 0)
        return 0;
    if (l->threads > 0)
        return poll_once(l, -1);
    PyObject *r = PyObject_CallMethod((PyObject *)l, "_others_may_wake", "O",
                                      next_timer(l) < Py_HUGE_VAL ? Py_True : Py_False);
    int others = r ? PyObject_IsTrue(r) : -1;
    Py_XDECREF(r);
    if (others < 0)
        return -1;
    if (ready_len(&l->ready) > 0)
        return 0; // a thread has woken the loop meanwhile, and may have ended
    if (others)
        return wait_really(l);
    if (next_timer(l) < Py_HUGE_VAL) {
        move_clock(l, next_timer(l));
        return 0;
    }
    Py_XDECREF(PyObject_CallMethod((PyObject *)l, "_deadlock", NULL)); // raises
    return -1;
}

// run_ready runs what is queued now.
static int run_ready(Loop *l) {
    size_t n = ready_len(&l->ready);
    l->since_poll += (int)(n < POLL_EVERY ? n : POLL_EVERY);
    if (l->simulated && n > 1)
        world_shuffle(l, n);
    for (size_t i = 0; i < n && ready_len(&l->ready) > 0; i++) {
        ReadyItem item = ready_pop(&l->ready);
        __atomic_store_n(&l->pulse, l->pulse + 1, __ATOMIC_RELAXED);
        int r = l->debug ? run_timed(l, item) : run_item(item);
        Py_DECREF(item.what);
        if (r < 0)
            return -1;
    }
    return 0;
}

static int tick(Loop *l) {
    long long timeout = wait_ns(l);
    if (l->own_clock && PyErr_Occurred())
        return -1;
    if (timeout != 0 && l->virtual_time) {
        if (skip_wait(l) < 0)
            return -1;
    } else if (timeout != 0 || poll_is_due(l))
        if (poll_once(l, timeout) < 0)
            return -1;
    if (l->timers.len > 0 && queue_due_timers(l) < 0)
        return -1;
    return run_ready(l);
}

int loop_step(Loop *l, int most) {
    int r = 0;
    do {
        if (l->timers.len > 0 && queue_due_timers(l) < 0)
            return -1;
        r = run_ready(l);
    } while (r == 0 && ready_len(&l->ready) > 0 && --most > 0 && !world_rests(l));
    return r;
}

// may_run raises if the loop is closed or another thread runs it.
static int may_run(Loop *l) {
    if (l->closed || l->id < 0) {
        PyErr_SetString(PyExc_RuntimeError, "Event loop is closed");
        return -1;
    }
    if (l->poller || (l->runner && l->runner != PyThread_get_thread_ident())) {
        PyErr_SetString(PyExc_RuntimeError, "This event loop is already running");
        return -1;
    }
    return 0;
}

static PyObject *loop_meth_run_once(Loop *l, PyObject *Py_UNUSED(ignored)) {
    if (may_run(l) < 0 || tick(l) < 0)
        return NULL;
    Py_RETURN_NONE;
}

// run runs ticks until stop is called, with a watchdog unless threshold is zero.
static PyObject *loop_meth_run(Loop *l, PyObject *threshold_object) {
    double threshold = PyFloat_AsDouble(threshold_object);
    if ((threshold == -1 && PyErr_Occurred()) || may_run(l) < 0)
        return NULL;
    if (l->runner) {
        PyErr_SetString(PyExc_RuntimeError, "This event loop is already running");
        return NULL;
    }
    if (threshold > 0 && watchdog_start(l, threshold) < 0)
        return NULL;
    l->since_poll = POLL_EVERY; // a short run sees descriptors too
    l->last_poll = 0;
    int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    if (slack > TIMER_SLACK)
        prctl(PR_SET_TIMERSLACK, TIMER_SLACK, 0, 0, 0);
    int r;
    l->running = true;
    l->runner = PyThread_get_thread_ident();
    l->runner_state = PyThreadState_Get();
    do
        r = tick(l);
    while (r == 0 && !l->stopping);
    l->running = false;
    l->runner = 0;
    l->runner_state = NULL;
    if (slack > TIMER_SLACK)
        prctl(PR_SET_TIMERSLACK, slack, 0, 0, 0);
    watchdog_stop(l);
    if (r < 0)
        return NULL;
    Py_RETURN_NONE;
}

// frame returns the frame of the thread that runs the loop. sys._current_frames would look at other interpreters too,
// which may be running.
static PyObject *loop_meth_frame(Loop *l, PyObject *Py_UNUSED(ignored)) {
    PyFrameObject *frame = l->runner_state ? PyThreadState_GetFrame(l->runner_state) : NULL;
    return frame ? (PyObject *)frame : Py_NewRef(Py_None);
}

static PyObject *loop_meth_release(Loop *l, PyObject *Py_UNUSED(ignored)) {
    if ((l->poller || l->runner) && !golib_is_forked()) {
        PyErr_SetString(PyExc_RuntimeError, "Cannot close a running event loop");
        return NULL;
    }
    l->closed = true;
    ready_clear(&l->ready);
    timers_clear(&l->timers);
    watch_clear(l);
    release(l);
    if (golog_has() && golog_deliver() < 0) // no other loop may take it
        return NULL;
    Py_RETURN_NONE;
}

#define FASTCALL(f) (PyCFunction)(void (*)(void))(f)
static PyMethodDef loop_methods[] = {
    {"call_soon", FASTCALL(loop_meth_call_soon), METH_FASTCALL | METH_KEYWORDS,
     "Call a callback in the next tick.\n\ncall_soon(callback, *args, context=None) -> Handle"},
    {"call_soon_threadsafe", FASTCALL(loop_meth_call_soon_threadsafe), METH_FASTCALL | METH_KEYWORDS,
     "Like call_soon, for any thread.\n\ncall_soon_threadsafe(callback, *args, context=None) -> Handle"},
    {"call_later", FASTCALL(loop_meth_call_later), METH_FASTCALL | METH_KEYWORDS,
     "Call a callback after delay seconds.\n\ncall_later(delay, callback, *args, context=None) -> TimerHandle"},
    {"call_at", FASTCALL(loop_meth_call_at), METH_FASTCALL | METH_KEYWORDS,
     "Call a callback at a time of the loop's clock.\n\ncall_at(when, callback, *args, context=None) -> TimerHandle"},
    {"create_task", FASTCALL(loop_meth_create_task), METH_FASTCALL | METH_KEYWORDS,
     "Run a coroutine as a task.\n\ncreate_task(coro, *, name=None, context=None) -> Task"},
    {"_begin_task", FASTCALL(loop_meth_begin_task), METH_FASTCALL, NULL},
    {"create_future", (PyCFunction)loop_meth_create_future, METH_NOARGS, "Return a new future of the loop."},
    {"time", (PyCFunction)loop_meth_time, METH_NOARGS, "Return the loop's time in seconds."},
    {"stop", (PyCFunction)loop_meth_stop, METH_NOARGS, "Stop the loop at the end of the tick."},
    {"get_debug", (PyCFunction)loop_meth_get_debug, METH_NOARGS, "Report whether the loop checks its use."},
    {"_add_callback", (PyCFunction)loop_meth_add_callback, METH_O, NULL},
    {"_add_callback_signalsafe", (PyCFunction)loop_meth_add_callback, METH_O, NULL},
    {"_write_to_self", (PyCFunction)loop_meth_wake, METH_NOARGS, NULL},
    {"_add_reader", FASTCALL(loop_meth_add_reader), METH_FASTCALL, NULL},
    {"_add_writer", FASTCALL(loop_meth_add_writer), METH_FASTCALL, NULL},
    {"_remove_reader", (PyCFunction)loop_meth_remove_reader, METH_O, NULL},
    {"_remove_writer", (PyCFunction)loop_meth_remove_writer, METH_O, NULL},
    {"_last_step", (PyCFunction)loop_meth_last_step, METH_O, NULL},
    {"_watched", (PyCFunction)loop_meth_watched, METH_O, NULL},
    {"_watched_fds", (PyCFunction)loop_meth_watched_fds, METH_NOARGS, NULL},
    {"_run_once", (PyCFunction)loop_meth_run_once, METH_NOARGS, NULL},
    {"_run", (PyCFunction)loop_meth_run, METH_O, NULL},
    {"_release", (PyCFunction)loop_meth_release, METH_NOARGS, NULL},
    {"_frame", (PyCFunction)loop_meth_frame, METH_NOARGS, NULL},
    {0},
};

static PyMemberDef loop_members[] = {
    {"_closed", T_BOOL, offsetof(Loop, closed)},
    {"_stopping", T_BOOL, offsetof(Loop, stopping)},
    {"_debug", T_BOOL, offsetof(Loop, debug)},
    {"_virtual_time", T_BOOL, offsetof(Loop, virtual_time)},
    {"_now", T_DOUBLE, offsetof(Loop, now)},
    {"_threads", T_INT, offsetof(Loop, threads)},
    {"_thread_id", T_OBJECT, offsetof(Loop, thread_id)},
    {"_task_factory", T_OBJECT, offsetof(Loop, task_factory)},
    {0},
};

static PyType_Slot loop_slots[] = {
    {Py_tp_new, loop_new},
    {Py_tp_setattro, loop_setattro},
    {Py_tp_traverse, loop_traverse},
    {Py_tp_clear, loop_clear},
    {Py_tp_dealloc, loop_dealloc},
    {Py_tp_methods, loop_methods},
    {Py_tp_members, loop_members},
    {0},
};

PyType_Spec loop_spec = {
    .name = "spindle._core.Loop",
    .basicsize = sizeof(Loop),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = loop_slots,
};
