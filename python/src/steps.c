// When each task last took a step, for spindle.tree: a task that waits has waited since then.
//
// A hash table has a row for each address at which a task has been. Rows are not references: the
// row of a task that is gone is overwritten by the first step of the next task at that address.
// So there are about as many rows as there were tasks at a time.
#include "core.h"
#include <string.h>

#define FIRST_ROWS 256
#define MOST_ROWS (1 << 20)

PyObject *steps_task(PyObject *callback) {
    if (Py_TYPE(callback) == names.step_type)
        return ((TaskStep *)callback)->task;
    return Py_TYPE(callback) == &PyCFunction_Type ? PyCFunction_GET_SELF(callback) : NULL;
}

// row_of returns the row of a task, or the empty one that is to be its row.
static inline StepRow *row_of(Steps *s, PyObject *task) {
    size_t i = ((uintptr_t)task >> 4) * 0x9E3779B97F4A7C15u >> s->shift;
    while (s->rows[i].task && s->rows[i].task != task)
        i = (i + 1) & (s->len - 1);
    return &s->rows[i];
}

// grow doubles the table. One that is large enough is emptied instead.
static void grow(Steps *s) {
    Steps old = *s;
    size_t len = old.len == 0 ? FIRST_ROWS : old.len < MOST_ROWS ? 2 * old.len : old.len;
    StepRow *rows = PyMem_RawCalloc(len, sizeof *rows);
    if (!rows)
        return;
    *s = (Steps){.latest = old.latest, .rows = rows, .len = len, .shift = 64 - __builtin_ctzll(len)};
    for (size_t i = 0; len > old.len && i < old.len; i++) {
        if (old.rows[i].task) {
            *row_of(s, old.rows[i].task) = old.rows[i];
            s->used++;
        }
    }
    PyMem_RawFree(old.rows);
}

void steps_note_task(Loop *l, PyObject *task) {
    Steps *s = &l->steps;
    if (2 * s->used >= s->len)
        grow(s);
    if (2 * s->used >= s->len)
        return; // no memory
    StepRow *row = row_of(s, task);
    s->used += !row->task;
    s->latest = *row = (StepRow){task, l->turned};
}

double steps_last(Loop *l, PyObject *task) {
    StepRow *row = l->steps.rows ? row_of(&l->steps, task) : NULL;
    return row && row->task == task ? row->at : -1;
}

void steps_clear(Loop *l) {
    PyMem_RawFree(l->steps.rows);
    l->steps = (Steps){0};
}
