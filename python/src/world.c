// A simulated world: Go has its hosts, their sockets, the network and the clock. This file runs the
// loops of the hosts in the order that Go chooses, one step of one loop at a time.
//
// A step runs the callbacks of a loop until none is left. Then the loop waits, and Go lets time pass
// until something happens: one call of Go for each step.
#include "world.h"
#include <errno.h>
#include <stdlib.h>

#define TICKS 64         // of one step; then others run
#define SIGNALS_EVERY 64 // steps

WorldLib worldlib;
static PyObject *set_running_loop;
static char *buffer; // for receiving; of all loops in worlds

static int load(void) {
    if (!state_is_main()) { // it changes the clocks of the process
        PyErr_SetString(PyExc_RuntimeError, "spindle.sim: a world needs the main interpreter");
        return -1;
    }
    struct {
        const char *name;
        void **into;
    } symbols[] = {
        {"SpindleWorldNew", (void **)&worldlib.new_world},     {"SpindleWorldClose", (void **)&worldlib.close},
        {"SpindleWorldNext", (void **)&worldlib.next},         {"SpindleWorldCall", (void **)&worldlib.call},
        {"SpindleWorldControl", (void **)&worldlib.control},   {"SpindleWorldLookup", (void **)&worldlib.lookup},
        {"SpindleWorldJoin", (void **)&worldlib.join},
        {"SpindleWorldPage", (void **)&worldlib.page},         {"SpindleWorldTrace", (void **)&worldlib.trace},
    };
    if (golib_load() < 0)
        return -1;
    for (size_t i = 0; !worldlib.trace && i < sizeof symbols / sizeof *symbols; i++)
        if (golib_symbol(symbols[i].name, symbols[i].into) < 0)
            return -1;
    if (!set_running_loop) {
        PyObject *events = PyImport_ImportModule("asyncio.events");
        set_running_loop = events ? PyObject_GetAttrString(events, "_set_running_loop") : NULL;
        Py_XDECREF(events);
    }
    if (!buffer && !(buffer = PyMem_RawMalloc(READ_BUFFER)))
        PyErr_NoMemory();
    return set_running_loop && buffer ? 0 : -1;
}

// World(seed) makes a world. World(seed, in, out) joins one that another process runs, over two descriptors.
static PyObject *world_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs)) {
    unsigned long long seed;
    int in = -1, out = -1;
    if (!PyArg_ParseTuple(args, "K|ii", &seed, &in, &out) || load() < 0)
        return NULL;
    World *w = (World *)type->tp_alloc(type, 0);
    if (!w)
        return NULL;
    w->process = -1;
    w->step = (SpindleStep){.process = -1, .capacity = sizeof w->events / sizeof *w->events};
    w->id = in < 0 ? worldlib.new_world(seed) : worldlib.join(in, out);
    if (w->id < 0)
        golib_raise(w->id);
    if (w->id < 0 || !(w->loops = PyList_New(0)))
        Py_CLEAR(w);
    return (PyObject *)w;
}

static int world_traverse(World *w, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(w));
    Py_VISIT(w->loops);
    Py_VISIT(w->on_differs);
    Py_VISIT(w->namer);
    return 0;
}

static int world_clear(World *w) {
    Py_CLEAR(w->loops);
    Py_CLEAR(w->on_differs);
    Py_CLEAR(w->namer);
    return 0;
}

static PyObject *world_close(World *w, PyObject *Py_UNUSED(ignored)) {
    if (w->id >= 0)
        worldlib.close(w->id);
    w->id = -1;
    Py_RETURN_NONE;
}

static void world_dealloc(World *w) {
    PyObject_GC_UnTrack(w);
    Py_XDECREF(world_close(w, NULL));
    world_clear(w);
    PyTypeObject *type = Py_TYPE(w);
    type->tp_free((PyObject *)w);
    Py_DECREF(type);
}

static bool is_open(World *w) {
    if (w->id < 0)
        PyErr_SetString(PyExc_RuntimeError, "spindle.sim: the world is closed");
    return w->id >= 0;
}

// control(op, a=0, b=0, x=0, y=0, f=0.0, text="")
static PyObject *world_control(World *w, PyObject *args) {
    SpindleControl c = {0};
    Py_ssize_t len = 0;
    if (!is_open(w) || !PyArg_ParseTuple(args, "i|iiLLds#", &c.op, &c.a, &c.b, &c.x, &c.y, &c.f, &c.text, &len))
        return NULL;
    c.len = (int)len;
    long long answer = 0;
    int r = worldlib.control(w->id, &c, &answer);
    if (r < 0) {
        golib_raise(r);
        return NULL;
    }
    return PyLong_FromLongLong(answer);
}

static PyObject *world_trace(World *w, PyObject *Py_UNUSED(ignored)) {
    if (!is_open(w))
        return NULL;
    char *text = worldlib.trace(w->id);
    if (!text) {
        PyErr_SetString(PyExc_RuntimeError, "spindle.sim: the trace cannot be read");
        return NULL;
    }
    PyObject *r = PyUnicode_FromString(text);
    free(text);
    return r;
}

// page(request) returns a page about the run. The request is JSON.
static PyObject *world_page(World *w, PyObject *request) {
    Py_ssize_t len;
    const char *asked = is_open(w) ? PyUnicode_AsUTF8AndSize(request, &len) : NULL;
    if (!asked)
        return NULL;
    char *text = worldlib.page(w->id, asked, (int)len);
    if (!text) {
        PyErr_SetString(PyExc_RuntimeError, "spindle.sim: there is no page of this run");
        return NULL;
    }
    PyObject *r = PyUnicode_FromString(text);
    free(text);
    return r;
}

// new_loop(type, process) makes the loop of a process, without calling its __init__.
static PyObject *world_new_loop(World *w, PyObject *args) {
    PyObject *type;
    int process;
    if (!PyArg_ParseTuple(args, "O!i", &PyType_Type, &type, &process))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)type, state()->types.loop)) {
        PyErr_SetString(PyExc_TypeError, "spindle.sim: the type is not one of loops");
        return NULL;
    }
    Loop *l = (Loop *)((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0);
    if (!l)
        return NULL;
    l->state = state();
    l->wake_fd = l->epoll_fd = -1;
    l->virtual_time = l->simulated = true;
    l->world = (World *)Py_NewRef((PyObject *)w);
    l->process = process;
    l->buffer = buffer;
    l->thread_id = Py_NewRef(Py_None);
    loops_add(l);
    while (PyList_GET_SIZE(w->loops) <= process)
        if (PyList_Append(w->loops, Py_None) < 0)
            break;
    if (PyErr_Occurred() || PyList_SetItem(w->loops, process, Py_NewRef((PyObject *)l)) < 0)
        Py_CLEAR(l);
    return (PyObject *)l;
}

// The system of a loop.

// differs reports the first difference.
static void differs(World *w, int process) {
    if (w->differed || process < 0)
        return;
    w->differed = true;
    PyObject *r = w->on_differs ? PyObject_CallFunction(w->on_differs, "i", process) : NULL;
    if (!r && PyErr_Occurred())
        PyErr_WriteUnraisable((PyObject *)w);
    Py_XDECREF(r);
}

static bool sends(const SpindleCall *c) {
    return c->op == SPINDLE_CALL_SEND || c->op == SPINDLE_CALL_SENDTO || c->op == SPINDLE_CALL_CONNECT;
}

int world_perform(World *w, int process, SpindleCall *c) {
    PyObject *name = w->namer && sends(c) ? PyObject_CallNoArgs(w->namer) : NULL;
    Py_ssize_t len = 0;
    if (name && (c->task = PyUnicode_AsUTF8AndSize(name, &len)))
        c->task_len = (int)len;
    if (PyErr_Occurred())
        PyErr_WriteUnraisable((PyObject *)w);
    int r = worldlib.call(w->id, process, c);
    Py_XDECREF(name);
    c->task = NULL;
    if (c->differs)
        differs(w, process);
    return r;
}

static int call(Loop *l, SpindleCall *c) {
    World *w = l->world;
    return l->id < 0 || !w || w->id < 0 ? -EBADF : world_perform(w, l->process, c);
}

int world_watch(Loop *l, int fd, int interest) {
    int r = call(l, &(SpindleCall){.op = SPINDLE_CALL_WATCH, .fd = fd, .a = interest});
    return interest == 0 && (r == -EBADF || r == -ENOENT) ? 0 : r;
}

static ssize_t as_system_call(int r) {
    if (r >= 0)
        return r;
    errno = r == SPINDLE_PANIC ? EIO : -r;
    return -1;
}

ssize_t world_receive(Loop *l, int fd, void *into, size_t len) {
    return as_system_call(call(l, &(SpindleCall){.op = SPINDLE_CALL_RECV, .fd = fd, .data = into, .len = len}));
}

ssize_t world_send(Loop *l, int fd, const void *from, size_t len) {
    return as_system_call(call(l, &(SpindleCall){.op = SPINDLE_CALL_SEND, .fd = fd, .data = (void *)from, .len = len}));
}

// Steps.

static int set_running(PyObject *loop) {
    PyObject *r = PyObject_CallOneArg(set_running_loop, loop);
    Py_XDECREF(r);
    return r ? 0 : -1;
}

// is_task reports whether an entry continues a task.
static bool is_task(ReadyItem *item) {
    if (item->ready || !Handle_Check(item->what))
        return false;
    PyObject *callback = ((Handle *)item->what)->callback;
    PyObject *task = callback ? steps_task(callback) : NULL;
    return task && PyObject_TypeCheck(task, (PyTypeObject *)names.task_type);
}

static uint64_t draw(uint64_t *state) { // xorshift64*
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1d;
}

// Only tasks change places. Callbacks of transports and protocols keep theirs, because asyncio
// promises their order.
void world_shuffle(Loop *l, size_t n) {
    if (!l->world || !l->world->shuffle)
        return;
    Ready *r = &l->ready;
    size_t places[64], count = 0;
    for (size_t i = 0; i < n && count < 64; i++)
        if (is_task(&r->items[(r->head + i) & r->mask]))
            places[count++] = (r->head + i) & r->mask;
    for (size_t i = count; i > 1; i--) {
        size_t j = draw(&l->world->shuffle) % i;
        ReadyItem item = r->items[places[i - 1]];
        r->items[places[i - 1]] = r->items[places[j]];
        r->items[places[j]] = item;
    }
}

// A turn of a real loop takes time, so that a request can arrive between two turns of tasks that are ready. In a
// shuffled world a turn in eight takes up to two milliseconds. There is a limit, because tasks that run again
// and again and wait for nothing are reported when no time passes.
#define REST_EVERY 8
#define REST_NS 2000000
#define MOST_RESTS 200

bool world_rests(Loop *l) {
    if (!l->world || !l->world->shuffle || l->rests >= MOST_RESTS || draw(&l->world->shuffle) % REST_EVERY != 0)
        return false;
    l->rests++;
    l->rest_ns = 1 + (long long)(draw(&l->world->shuffle) % REST_NS);
    return true;
}

// until_next returns how long the loop waits, in nanoseconds, -1 for no limit.
static long long until_next(Loop *l) {
    long long rest = l->rest_ns;
    l->rest_ns = 0;
    if (ready_len(&l->ready) > 0)
        return rest;
    l->rests = 0;
    if (l->timers.len == 0)
        return -1;
    double wait = (l->timers.heap[0]->when - l->now) * 1e9;
    if (wait > 1e18)
        return -1;
    long long ns = wait < 1 ? 1 : (long long)wait;
    return ns + (ns < wait); // not too early
}

// run_step runs the loop that is due, with n events.
static int run_step(World *w, Loop *l, int n) {
    l->now = l->turned = (double)w->step.mono_ns * 1e-9;
    l->polls++;
    for (int i = 0; i < n; i++)
        if (watch_deliver(l, &w->events[i]) < 0)
            return -1;
    if (set_running((PyObject *)l) < 0)
        return -1;
    l->running = true;
    int r = l->id < 0 ? 0 : loop_step(l, TICKS);
    l->running = false;
    PyObject *exc = r < 0 ? exception_take() : NULL;
    if (set_running(Py_None) < 0)
        r = -1;
    if (exc) {
        PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
        Py_DECREF(exc);
    }
    return r;
}

// park tells Go that the process of the last step waits, before Python looks at the world.
static int park(World *w) {
    if (w->step.process < 0 || w->id < 0)
        return 0;
    SpindleControl c = {.op = SPINDLE_WORLD_PARK, .a = w->step.process, .x = w->step.wait_ns};
    long long answer;
    w->step.process = -1;
    int r = worldlib.control(w->id, &c, &answer);
    if (r < 0)
        golib_raise(r);
    return r;
}

static PyObject *report(World *w, const char *why, long long number) {
    return park(w) < 0 ? NULL : Py_BuildValue("sL", why, number);
}

// wake makes Go run the loops that were given something to do by other code than their own.
static int wake(World *w) {
    w->touched = false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(w->loops); i++) {
        Loop *l = (Loop *)PyList_GET_ITEM(w->loops, i);
        if ((PyObject *)l == Py_None || !l->woken)
            continue;
        l->woken = false;
        long long answer;
        int r = worldlib.control(w->id, &(SpindleControl){.op = SPINDLE_WORLD_WAKE, .a = l->process}, &answer);
        if (r < 0) {
            golib_raise(r);
            return -1;
        }
    }
    return 0;
}

// step_once makes one step. It returns NULL without an exception if there is nothing to report.
static PyObject *step_once(World *w) {
    if (w->touched && (park(w) < 0 || wake(w) < 0))
        return NULL;
    w->step.events = w->events;
    int before = w->step.process;
    int n = worldlib.next(w->id, &w->step);
    world_set_clock(w->step.mono_ns, w->step.wall_ns + w->begin_ns);
    int process = w->step.process;
    if (w->step.differs)
        differs(w, before);
    if (n == SPINDLE_DEADLOCK || n == SPINDLE_STANDSTILL)
        return report(w, n == SPINDLE_DEADLOCK ? "deadlock" : "standstill", process);
    if (n < 0) {
        golib_raise(n);
        return NULL;
    }
    if (process < 0)
        return report(w, "call", w->step.call);
    PyObject *loop = process < PyList_GET_SIZE(w->loops) ? Py_NewRef(PyList_GET_ITEM(w->loops, process)) : NULL;
    if (!loop || loop == Py_None) {
        Py_XDECREF(loop);
        PyErr_SetString(PyExc_RuntimeError, "spindle.sim: a process has no loop");
        return NULL;
    }
    Loop *l = (Loop *)loop;
    w->process = process;
    world_steps = true;
    int r = run_step(w, l, n);
    world_steps = false;
    w->process = -1;
    w->step.wait_ns = l->id < 0 ? -1 : until_next(l);
    Py_DECREF(loop);
    if (r < 0)
        return NULL;
    if (w->stop || w->watched)
        return report(w, w->stop ? "stop" : "step", process);
    return NULL;
}

// drive runs the world until something is to be done in Python. It returns what, and a number.
static PyObject *world_drive(World *w, PyObject *Py_UNUSED(ignored)) {
    if (!is_open(w))
        return NULL;
    if (w->process >= 0) {
        PyErr_SetString(PyExc_RuntimeError, "spindle.sim: a program cannot run the world that it runs in");
        return NULL;
    }
    w->stop = false;
    for (int steps = 1;; steps++) {
        PyObject *r = step_once(w);
        if (r)
            return r;
        if (PyErr_Occurred() || (steps % SIGNALS_EVERY == 0 && PyErr_CheckSignals() < 0)) {
            PyObject *exc = exception_take();
            park(w);
            PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
            Py_DECREF(exc);
            return NULL;
        }
    }
}

// settle moves the clocks of all loops to the present, for a description of their tasks.
static PyObject *world_settle(World *w, PyObject *Py_UNUSED(ignored)) {
    double now = (double)w->step.now_ns * 1e-9;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(w->loops); i++) {
        Loop *l = (Loop *)PyList_GET_ITEM(w->loops, i);
        if ((PyObject *)l != Py_None && l->now < now)
            l->now = now;
    }
    Py_RETURN_NONE;
}

static PyObject *world_stop(World *w, PyObject *Py_UNUSED(ignored)) {
    w->stop = true;
    Py_RETURN_NONE;
}

static PyMethodDef world_methods[] = {
    {"close", (PyCFunction)world_close, METH_NOARGS, NULL},
    {"control", (PyCFunction)world_control, METH_VARARGS, NULL},
    {"trace", (PyCFunction)world_trace, METH_NOARGS, NULL},
    {"page", (PyCFunction)world_page, METH_O, NULL},
    {"new_loop", (PyCFunction)world_new_loop, METH_VARARGS, NULL},
    {"drive", (PyCFunction)world_drive, METH_NOARGS, NULL},
    {"stop", (PyCFunction)world_stop, METH_NOARGS, NULL},
    {"settle", (PyCFunction)world_settle, METH_NOARGS, NULL},
    {"call", (PyCFunction)(void (*)(void))world_call, METH_FASTCALL, NULL},
    {"lookup", (PyCFunction)(void (*)(void))world_lookup, METH_FASTCALL, NULL},
    {0},
};

#include <structmember.h>
static PyMemberDef world_members[] = {
    {"id", T_INT, offsetof(World, id), READONLY},
    {"process", T_INT, offsetof(World, process), READONLY},
    {"begin_ns", T_LONGLONG, offsetof(World, begin_ns)},
    {"shuffle", T_ULONGLONG, offsetof(World, shuffle)},
    {"watched", T_BOOL, offsetof(World, watched)},
    {"on_differs", T_OBJECT, offsetof(World, on_differs)},
    {"namer", T_OBJECT, offsetof(World, namer)},
    {"loops", T_OBJECT, offsetof(World, loops), READONLY},
    {0},
};

static PyType_Slot world_slots[] = {
    {Py_tp_new, world_new},
    {Py_tp_dealloc, world_dealloc},
    {Py_tp_traverse, world_traverse},
    {Py_tp_clear, world_clear},
    {Py_tp_methods, world_methods},
    {Py_tp_members, world_members},
    {0},
};

PyType_Spec world_spec = {
    .name = "spindle._core.World",
    .basicsize = sizeof(World),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = world_slots,
};
