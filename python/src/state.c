// The states of the interpreters that have loaded the module.
//
// An interpreter with its own GIL runs at the same time as the others, so nothing of Python is shared: types, names and
// spare objects are in a State. A method is not given the module, and a thread can change from
// one interpreter to another. So the state is found by the interpreter of the calling thread. With one interpreter it is
// a variable; with several, each thread remembers the state that it has found last.
//
// The collector frees what belongs to an ending interpreter in any order: the module may go before objects of its types.
// Those find the state gone, which keeps nothing and has no names.
#include "core.h"
#include <pthread.h>

State *state_only;

static State gone = {.ended = true};
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static State *all;     // guarded by mu
static unsigned epoch; // counts changes of all; written under mu

static __thread struct {
    PyInterpreterState *interpreter;
    State *state;
    unsigned epoch;
} found __attribute__((tls_model("initial-exec")));

// look returns the state of an interpreter, NULL if it has none. The caller holds mu.
static State *look(PyInterpreterState *interpreter) {
    State *s = all;
    while (s && s->interpreter != interpreter)
        s = s->next;
    return s;
}

State *state_find(void) {
    PyInterpreterState *here = PyInterpreterState_Get();
    unsigned now = __atomic_load_n(&epoch, __ATOMIC_ACQUIRE);
    if (found.interpreter != here || found.epoch != now) {
        pthread_mutex_lock(&mu);
        found.interpreter = here; // an address that another interpreter may have had
        State *s = look(here);
        found.state = s ? s : &gone;
        found.epoch = epoch;
        pthread_mutex_unlock(&mu);
    }
    return found.state;
}

// changed is called after a change of all. The caller holds mu. Only the first state is ever the only one: after a
// second one, objects of an interpreter that has ended could find that of another.
static void changed(void) {
    __atomic_store_n(&state_only, epoch == 0 ? all : NULL, __ATOMIC_RELEASE);
    __atomic_store_n(&epoch, epoch + 1, __ATOMIC_RELEASE);
}

bool state_is_main(void) { return PyInterpreterState_Get() == PyInterpreterState_Main(); }

// forget takes a state out of all. The caller holds mu.
static void forget(State *s) {
    for (State **at = &all; *at; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            changed();
            return;
        }
    }
}

State *state_of(PyObject *module) {
    State **s = PyModule_GetState(module);
    return s ? *s : NULL;
}

int state_enter(PyObject *module) {
    State *s = PyMem_RawCalloc(1, sizeof *s); // not the interpreter's memory: other threads walk through all
    if (!s) {
        PyErr_NoMemory();
        return -1;
    }
    s->interpreter = PyInterpreterState_Get();
    s->id = PyInterpreterState_GetID(s->interpreter);
    pthread_mutex_lock(&mu);
    State *old = look(s->interpreter);
    if (old && old->id != s->id) { // of an interpreter that has ended with objects that nothing could free
        forget(old);
        old = NULL;
    }
    if (!old) {
        s->next = all;
        all = s;
        changed();
    }
    pthread_mutex_unlock(&mu);
    if (old) { // its types refer to the first module
        PyMem_RawFree(s);
        PyErr_SetString(PyExc_ImportError, "spindle: _core cannot be loaded twice in one interpreter");
        return -1;
    }
    *(State **)PyModule_GetState(module) = s;
    return 0;
}

void state_leave(State *s) {
    pthread_mutex_lock(&mu);
    forget(s);
    pthread_mutex_unlock(&mu);
}

PyTypeObject *state_type(PyObject *module, PyType_Spec *spec, PyTypeObject *base) {
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, (PyObject *)base);
    if (type && PyModule_AddType(module, type) < 0)
        Py_CLEAR(type);
    return type;
}

bool state_has_ended(void) {
    if (!state()->ended)
        return false;
    PyErr_SetString(PyExc_RuntimeError, "spindle: the interpreter is being finalized");
    return true;
}
