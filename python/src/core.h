// The types of the extension module, and what its files offer to one another.
//
// Everything here is guarded by the GIL of the interpreter that it belongs to. What the module has for each
// interpreter is in State; golib and the words that Go writes are of the process. A loop releases the GIL only
// inside golib.poll; the functions of Go that concern a loop must not be called by another thread meanwhile
// (Loop.poller).
//
// Giving up a reference may run any code of Python, which may close the loop. So a function takes
// what it gives up out of the loop's tables first, and gives it up last.
#ifndef SPINDLE_CORE_H
#define SPINDLE_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../libspindle/events.h"

#if PY_VERSION_HEX < 0x030D0000
#define Py_HashPointer _Py_HashPointer
#endif

// golib.c: the shared library that is written in Go. It is loaded by the first loop.
typedef struct {
    int (*new_loop)(SpindleHost *host);
    int (*close_loop)(int loop);
    int (*descriptor)(int loop);
    int (*watch)(int loop, int fd, int interest, uint64_t *token);
    int (*poll)(int loop, long long timeout_ns, SpindleEvent *events, int capacity);
    int (*blocked)(int loop, SpindleBlock *block);
    int (*inspect)(const char *address, char *text, int capacity);
    void (*failure)(char *text, int capacity);
    int (*take_log)(SpindleLogRecord *record);
} GoLib;

extern GoLib golib;
int golib_set_path(const char *path);
int golib_load(void);
void golib_forked(void);    // in the child of a fork: refuse everything from now on
bool golib_is_forked(void);
void golib_raise(int negative_errno); // set the exception for a failed call
int golib_symbol(const char *name, void **into); // -1 with an exception

// gostart.c
int golib_may_start(void);           // -1 with an exception if the process has too little for Go's runtime
void *golib_start(const char *path); // the library, once Go's runtime has started; NULL with dlerror

// oneprocessor.c
// OneProcessor restricts the threads that start between begin and end to one processor.
typedef struct {
    cpu_set_t all, one;
    bool restricted;
    pid_t *before; // threads that were there at the beginning
    size_t n;
} OneProcessor;
void oneprocessor_begin(OneProcessor *o);
void oneprocessor_end(OneProcessor *o);

// golog.c
extern uint32_t golog_waits; // Go has logged something; written by Go
int golog_deliver(void);     // pass it to Python's logging; -1 with an exception that is to end the loop
static inline bool golog_has(void) { return __atomic_load_n(&golog_waits, __ATOMIC_RELAXED); }

// weak_target returns a new reference to what ref refers to, NULL if that is gone.
static inline PyObject *weak_target(PyObject *ref) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *target = NULL;
    return PyWeakref_GetRef(ref, &target) > 0 ? target : NULL;
#else
    PyObject *target = PyWeakref_GetObject(ref);
    return target == Py_None ? NULL : Py_NewRef(target);
#endif
}

// exceptions.c
bool exception_ends_loop(void);  // as asyncio does: SystemExit and KeyboardInterrupt
PyObject *exception_take(void);  // clear the present exception and return it; NULL if there is none

typedef struct State State;
typedef struct Loop Loop;
typedef struct Handle Handle;
typedef struct Transport Transport;
typedef struct World World;

// handle.c: a callback to come. A TimerHandle has the same layout.
struct Handle {
    PyObject_VAR_HEAD // the size is the number of arguments
    Loop *loop;
    PyObject *callback;         // NULL once cancelled
    PyObject *context;
    PyObject *source_traceback; // NULL unless the loop is in debug mode
    PyObject *repr;             // kept for a cancelled handle in debug mode
    PyObject *weakrefs;
    double when;                // of a timer
    uint64_t order;             // of a timer: decides between equal times
    Py_ssize_t slot;            // of a timer: its index in the heap, -1 if it is not there
    bool cancelled;
    bool running;
    PyObject *args[1]; // args[0] is scratch space for a vectorcall
};

#define Handle_Check(o) (Py_TYPE(o) == state()->types.handle || Py_TYPE(o) == state()->types.timer_handle)

Handle *handle_new(PyTypeObject *type, Loop *loop, PyObject *callback,
                   PyObject *const *args, Py_ssize_t nargs, PyObject *context);
int handle_run(Handle *h);
void handle_cancel(Handle *h);
void handle_track(Handle *h);                               // when it leaves a queue
int handle_visit(Handle *h, visitproc visit, void *arg); // while it is in one

// ready.c: what runs in the next tick, a ring of objects with a note for each.
typedef struct {
    PyObject *what; // a Handle, another object with _run, or a Transport
    int ready;      // of a Transport: SPINDLE_READ or SPINDLE_WRITE
} ReadyItem;

typedef struct {
    ReadyItem *items;
    size_t head, tail, mask; // capacity - 1
} Ready;

int ready_push(Ready *r, PyObject *what, int ready); // takes a new reference
static inline size_t ready_len(Ready *r) { return r->tail - r->head; }
static inline ReadyItem ready_pop(Ready *r) { return r->items[r->head++ & r->mask]; }
int ready_visit(Ready *r, visitproc visit, void *arg);
void ready_clear(Ready *r);

// timers.c: a heap of TimerHandles, the earliest first.
typedef struct {
    Handle **heap;
    Py_ssize_t len, cap;
    uint64_t order;
} Timers;

int timers_add(Timers *t, Handle *h); // takes a new reference
void timers_remove(Timers *t, Handle *h);
Handle *timers_pop(Timers *t); // gives a reference to the caller
int timers_visit(Timers *t, visitproc visit, void *arg);
void timers_clear(Timers *t);

// watch.c: what is to be called when a descriptor is ready.
typedef struct {
    Handle *reader, *writer;
    PyObject *file;       // that add_reader or add_writer was given, if not a number
    Transport *transport; // if it waits for something
    int transport_interest;
    int interest; // what Go waits for
    bool stale;   // Go is to be told anew, see watch_catch_up
    uint64_t token; // the data of its epoll events
    unsigned poll;  // the one that has delivered it last, see Loop.polls
} Watcher;

typedef struct {
    Watcher *by_fd;
    int len;
    int used;  // descriptors that are watched
    int *fds;  // by the lower half of the token
    int rows;  // of fds
    bool stale; // some are
} Watchers;

// watch_set sets the reader or the writer of a descriptor; h NULL ends it. file is what the program
// calls the descriptor. It returns -1 with an exception.
int watch_set(Loop *l, int fd, int direction, Handle *h, PyObject *file);
int watch_find(Loop *l, PyObject *file);          // its descriptor, -1 if there is none
int watch_transport(Loop *l, int fd, Transport *t, int interest); // what t waits for on fd
void watch_catch_up(Loop *l); // tell Go what other threads have changed during a poll
int watch_wake_fd(Loop *l);                       // the loop's own descriptor
int watch_fd(Loop *l, uint64_t token);            // the descriptor of an epoll event, -1 if this loop does not watch it
// watch_deliver queues what waits for an event. It returns 0 if this poll has done so already.
int watch_deliver(Loop *l, SpindleEvent *e);
int watch_visit(Loop *l, visitproc visit, void *arg);
void watch_clear(Loop *l);

// watchdog.c
typedef struct Watchdog Watchdog;
int watchdog_start(Loop *l, double threshold);
void watchdog_stop(Loop *l);
void watchdog_wake(Loop *l); // when the loop has waited

// steps.c: when tasks last took a step.
typedef struct {
    PyObject *task; // not a reference
    double at;
} StepRow;

typedef struct {
    StepRow latest; // many programs have one task that runs
    StepRow *rows;
    size_t len, used; // len is a power of two
    int shift;        // of a hash, to the number of a row
} Steps;

void steps_note_task(Loop *l, PyObject *task); // task has taken a step
double steps_last(Loop *l, PyObject *task);    // -1 if it is not known
void steps_clear(Loop *l);

// TaskStep is the beginning of asyncio's private TaskStepMethWrapper.
typedef struct {
    PyObject_HEAD
    PyObject *task;
} TaskStep;

PyObject *steps_task(PyObject *callback); // the task that callback continues, NULL if it is none; not a new reference

// poll.c
int poll_once(Loop *l, long long timeout_ns);
int64_t clock_ns(void);

// inspect.c: what the inspector of Go asks for.
extern bool inspected; // the inspector is served
PyObject *inspect_serve(PyObject *module, PyObject *address);

// version.c
PyObject *library_version(PyObject *module, PyObject *ignored);
char *inspect_tasks(void *loop, bool first);
void inspect_blocked(Loop *l, unsigned long pulse, double seconds, PyObject *found);
void inspect_unblocked(Loop *l);

// loop.c
#define EVENTS 256
#define READ_BUFFER (256 * 1024)

// Service is what a loop calls for its server. The files of the loop know no more of it, and name
// nothing of asgi.h: internal/tidy has a test.
typedef struct {
    void (*before_poll)(Loop *l, bool waits);
    int (*after_poll)(Loop *l); // what the poll has brought for the server
    void (*loop_closed)(Loop *l);
    bool (*runs)(Loop *l, PyObject *task); // task is one of the server's
} Service;

struct Loop {
    PyObject_HEAD
    State *state;
    Ready ready;
    Timers timers;
    Watchers watchers;
    PyObject *thread_id; // None unless it runs
    PyObject *task_factory;
    Steps steps;
    double turned;       // the time of the last poll
    double now;          // of a virtual clock
    double waited;       // in reality, since the virtual clock has moved
    int threads;         // that work for it, if the clock is virtual
    int id;              // in libspindle; -1 if closed
    World *world;        // that a simulated loop is in; world.h
    int process;         // in that world
    long long rest_ns;   // how long it is busy after this step, though tasks are ready; world_rests
    int rests;           // since it was last idle
    int epoll_fd;        // the one of Go's loop
    int wake_fd;         // an eventfd
    int since_poll;      // callbacks
    int poll_after;      // callbacks; fewer if they take long
    unsigned long poller; // the thread that polls, 0 if none does
    unsigned long runner; // the thread that is in _run, 0 if none is
    PyThreadState *runner_state; // of that thread
    PyThreadState *suspended;    // of the thread that polls without the GIL
    unsigned polls;      // so far
    int64_t last_poll;   // when, in nanoseconds
    int64_t last_turn;   // of Go's loop
    unsigned long pulse; // callbacks; for the watchdog
    Watchdog *watchdog;  // while it runs
    PyObject *server;    // what Service is of; NULL for most loops
    const Service *service;
    PyObject *interrupt; // an exception that ended a call of Python inside a poll
    bool running;        // in _run
    bool poll_due;       // the next tick polls, even if it has something to run
    bool lively;         // the last poll brought several events
    bool waiting;        // in golib.poll, without the GIL
    bool woken;          // wake_fd was written
    bool simulated;      // it is in a world: its descriptors are Go's
    bool own_clock;      // the program has replaced the method time
    bool stopping, closed, debug, virtual_time;
    Loop *prev, *next; // of all loops
    char *buffer; // READ_BUFFER bytes for receiving
    SpindleEvent events[EVENTS];
};

int loop_run_first_step(Loop *l, PyObject *task, size_t before);
int loop_step(Loop *l, int most); // run callbacks until none is left, or for so many ticks
double loop_time(Loop *l); // with an exception if own_clock is set and the program's clock fails
void loop_wake(Loop *l); // end a poll of another thread
// loop_check_thread raises in debug mode, if another thread runs the loop.
int loop_check_thread(Loop *l);

// loops.c
void loops_add(Loop *l);
void loops_remove(Loop *l);
void loops_leave(State *s); // loops that are left do not find it
PyObject *loops_track_held(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

// transport.c
int transport_ready(Transport *t, int ready); // -1 with an exception that ends the loop

// stream_reader.c and stream_read.c: what is hot of asyncio.StreamReader.
typedef struct {
    PyObject_HEAD
    PyObject *loop, *limit, *waiter, *exception, *transport; // asyncio's attributes; NULL is None
    PyObject *chunk;                                         // bytes, or NULL
    PyObject *buffer;                                        // a bytearray; empty if there is a chunk
    bool eof, paused;
} StreamReader;

int stream_feed(StreamReader *r, PyObject *data); // feed_data
Py_ssize_t stream_buffered(StreamReader *r);
PyObject *stream_take(StreamReader *r, Py_ssize_t n);
int stream_resume(StreamReader *r);
PyObject *stream_read(StreamReader *r, Py_ssize_t most); // a coroutine

// coroutine.c: what coroutines have in common.
PyObject *coroutine_result(PySendResult sent, PyObject *result);
PyObject *coroutine_throw(PyObject *waiting, PyObject *const *args, Py_ssize_t nargs);
PyObject *stream_adopt(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
static inline bool is_set(PyObject *o) { return o && o != Py_None; }

// datagram.c
PyObject *datagram_receive(PyObject *module, PyObject *fd);
PyObject *registry_adopt(PyObject *module, PyObject *set); // registry.c
void datagrams_free(State *s);

// names.c: interned names and objects of asyncio.
typedef struct {
    PyObject *check_thread, *callback_failed, *run, *cancelled,
        *data_received, *get_buffer, *buffer_updated, *eof_received, *pause_writing,
        *resume_writing, *protocol_failed, *context,
        *extract_stack, *format_handle, *set_result, *extend, *pause_reading, *resume_reading,
        *create_future, *create_task, *name, *throw_, *close, *strong_reader, *reader_ref;
    PyObject *buffered_protocol, *future_type, *task_type; // of asyncio
    PyObject *base_create_task;                            // BaseEventLoop.create_task
    PyObject *stream_reader, *stream_protocol;             // of asyncio
    PyObject *base_read;                                   // StreamReader.read
    PyObject *stream_data_received;                        // StreamReaderProtocol.data_received
    PyObject *loop_keyword, *name_keyword, *loop_and_name_keywords; // ("loop",) and so on
    PyObject *minus_one;
    PyTypeObject *step_type; // of the callback that starts a task; internals.c has checked that it is what TaskStep says
} Names;
int names_init(void);
int names_visit(State *s, visitproc visit, void *arg);
void names_free(State *s);

// Types are the types of the module that its own code uses.
typedef struct {
    PyTypeObject *loop, *handle, *timer_handle, *stream_reader, *reading;
} Types;

extern PyType_Spec loop_spec, handle_spec, timer_handle_spec, stream_reader_spec, reading_spec, transport_spec, world_spec;
PyObject *transport_base(void); // a new reference

// Spares are objects that are kept for reuse. They refer to their types, and to nothing else.
typedef struct {
    PyObject *handles[1024];
    int handle_count;
    PyObject *reading; // one is enough: most reads end before the next begins
} Spares;

static inline void spare_delete(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_Del(o);
    Py_DECREF(type);
}

void handle_free_spare(State *s);
int handle_visit_spare(State *s, visitproc visit, void *arg);
void stream_free_spare(State *s);

// state.c: what the module has for each interpreter.
struct State {
    Names words;
    Types types;
    Spares spares;
    int nested;    // calls of handle_dealloc
    Handle *later; // handles that it has yet to free
    Loop *loops;   // all of the interpreter's
    struct Datagrams *datagrams; // datagram.c
    struct ServerState *server;  // what Service is of has here
    PyInterpreterState *interpreter;
    int64_t id;    // of the interpreter: its address is used again
    State *next;   // of all interpreters
    bool ended;    // the interpreter ends: nothing can be made any more
};

// state returns the state of the interpreter that the calling thread runs. A process that has loaded the module in
// one interpreter pays a comparison for it.
extern State *state_only; // NULL if several interpreters have the module
State *state_find(void);
static inline __attribute__((always_inline)) State *state(void) {
    State *only = __atomic_load_n(&state_only, __ATOMIC_RELAXED);
    return __builtin_expect(only != NULL, 1) ? only : state_find();
}
#define names (state()->words) // as errno is of the thread, this is of the interpreter

bool state_is_main(void); // in the main interpreter
int state_enter(PyObject *module); // make the state of the interpreter; -1 with an exception
State *state_of(PyObject *module); // NULL if it has none
void state_leave(State *s); // objects of the interpreter find none any more
PyTypeObject *state_type(PyObject *module, PyType_Spec *spec, PyTypeObject *base); // a new type of the module
bool state_has_ended(void); // raises if it has

// steps_note notes the task that callback continues, if it does.
static inline void steps_note(Loop *l, PyObject *callback) {
    const Names *words = &l->state->words;
    PyObject *task;
    if (Py_TYPE(callback) == words->step_type) {
        task = ((TaskStep *)callback)->task;
    } else if (Py_TYPE(callback) == &PyCFunction_Type) { // Task.__wakeup, or any other built-in method
        task = PyCFunction_GET_SELF(callback);
        if (!task || ((PyObject *)Py_TYPE(task) != words->task_type &&
                      !(l->simulated && PyObject_TypeCheck(task, (PyTypeObject *)words->task_type))))
            return;
    } else {
        return;
    }
    if (l->steps.latest.task != task || l->steps.latest.at != l->turned)
        steps_note_task(l, task);
}

#endif
