// The tasks of simulated loops. asyncio keeps tasks in sets, and the order of a set follows from hashes,
// which are addresses: a TaskGroup would cancel its tasks in another order in each run. The hash of these
// tasks is a number that is counted up in each world.
#include "world.h"

static Py_ssize_t number_at; // offset
static __thread uint64_t numbers;

void world_set_numbers(uint64_t n) { numbers = n; }
uint64_t world_numbers(void) { return numbers; }

static Py_hash_t task_hash(PyObject *task) {
    uint64_t *number = (uint64_t *)((char *)task + number_at);
    if (*number == 0)
        *number = ++numbers;
    return (Py_hash_t)*number;
}

static PyObject *task_compare(PyObject *a, PyObject *b, int op) { return PyBaseObject_Type.tp_richcompare(a, b, op); }

static PyType_Slot slots[] = {
    {Py_tp_hash, task_hash},
    {Py_tp_richcompare, task_compare},
    {0},
};

// world_task_type makes the type: asyncio's Task with one more word.
PyObject *world_task_type(void) {
    PyTypeObject *base = (PyTypeObject *)names.task_type;
    number_at = (base->tp_basicsize + 7) & ~(Py_ssize_t)7; // the same in all interpreters
    PyType_Spec spec = {
        .name = "spindle.sim.Task",
        .basicsize = (int)(number_at + sizeof(uint64_t)),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
        .slots = slots,
    };
    return PyType_FromSpecWithBases(&spec, names.task_type);
}
