// Loops in a simulated world. The kernel of such a loop is in Go; see docs/design/029-python-worlds.md.
#ifndef SPINDLE_WORLD_C_H
#define SPINDLE_WORLD_C_H

#include "core.h"
#include <sys/types.h>
#include "../libspindle/world.h"

typedef struct {
    int (*new_world)(uint64_t seed);
    int (*join)(int in, int out);
    int (*close)(int world);
    int (*next)(int world, SpindleStep *step);
    int (*call)(int world, int process, SpindleCall *call);
    int (*control)(int world, SpindleControl *control, long long *answer);
    int (*lookup)(int world, int process, const char *name, int len, SpindleAddress *into, int capacity);
    char *(*trace)(int world);
    char *(*page)(int world, const char *request, int len);
} WorldLib;

extern WorldLib worldlib;

struct World {
    PyObject_HEAD
    int id;          // in libspindle; -1 if closed
    int process;     // that runs, -1 if none does
    bool stop;       // drive is to return
    bool watched;    // drive returns after each step
    bool differed;   // it was reported
    long long begin_ns; // what is added to the time of day
    uint64_t shuffle; // the state of a random source that orders ready tasks; 0: they run in asyncio's order
    bool touched;    // a loop that does not run was given something to do
    PyObject *on_differs; // called with a process when the run first differs from its twin
    PyObject *namer; // called for the name of the task that runs; NULL if tasks are not named
    PyObject *loops; // a list: the loop of each process, or None
    SpindleStep step;
    SpindleEvent events[64];
};

PyObject *world_call(World *w, PyObject *const *args, Py_ssize_t nargs); // world_call.c
PyObject *world_lookup(World *w, PyObject *const *args, Py_ssize_t nargs);

int world_perform(World *w, int process, SpindleCall *c); // a call, with the name of its task if tasks are named

// What the C code of a loop calls in place of the system. They return as system calls do.
int world_watch(Loop *l, int fd, int interest); // 0 or a negative errno
ssize_t world_receive(Loop *l, int fd, void *into, size_t len);
ssize_t world_send(Loop *l, int fd, const void *from, size_t len);

// world_touch notes that a loop was given something to do.
static inline void world_touch(Loop *l) {
    if (l->world && l->world->process != l->process)
        l->woken = l->world->touched = true;
}

void world_shuffle(Loop *l, size_t n); // reorder the tasks among the first n entries that are ready
bool world_rests(Loop *l);             // report whether a step ends, though tasks are ready

// world_system.c: the clocks and random numbers of the thread that runs a world.
void world_set_clock(int64_t mono_ns, int64_t wall_ns);
PyObject *world_enter(PyObject *module, PyObject *args);
PyObject *world_leave(PyObject *module, PyObject *ignored);
PyObject *world_clock(PyObject *module, PyObject *args);
extern __thread bool world_runs; // in this thread
extern __thread bool world_steps; // a program of a host runs in this thread

// world_wait.c: waits for the real system, which are errors in a world.
void *world_wait(const char *name);            // what replaces a function of libc, or NULL
void world_blocked_by(PyObject *exception);    // the type that they raise
void world_raise_later(void);                  // raises it when the call of the system has returned

// world_task.c
PyObject *world_task_type(void);      // a new reference
void world_set_numbers(uint64_t n);   // the last number of a task
uint64_t world_numbers(void);

// world_audit.c
PyObject *world_refuse_by(PyObject *module, PyObject *refuse);
#endif
