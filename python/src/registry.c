// asyncio's registry of tasks, without Python code for each task.
//
// Every task is added to a WeakSet when it is made, and its weak reference removes it when it is freed. WeakSet is
// written in Python, so these are two calls of Python functions for each task: a twentieth of a small request. The
// functions here do the same for asyncio's one set. They are attributes of it, which take precedence over methods. A
// registry that is not such a set stays as it is: asyncio's from 3.14 on is written in C.
#include "core.h"

static struct {
    PyObject *set;      // the WeakSet
    PyObject *data;     // its weak references, a set
    PyObject *waiting;  // those to be removed after iterations, a list
    PyObject *iterates; // the iterations, a set
    PyObject *remove;   // called with a weak reference to a task that is freed
} registry;

static PyObject *registry_add(PyObject *Py_UNUSED(module), PyObject *task) {
    if (PyList_GET_SIZE(registry.waiting) > 0)
        return PyObject_CallMethod((PyObject *)Py_TYPE(registry.set), "add", "OO", registry.set, task);
    PyObject *ref = PyWeakref_NewRef(task, registry.remove);
    int r = ref ? PySet_Add(registry.data, ref) : -1;
    Py_XDECREF(ref);
    if (r < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *registry_remove(PyObject *Py_UNUSED(module), PyObject *ref) {
    if (PySet_GET_SIZE(registry.iterates) > 0 ? PyList_Append(registry.waiting, ref) < 0
                                              : PySet_Discard(registry.data, ref) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef add_method = {"add", registry_add, METH_O, "WeakSet.add for asyncio's tasks."};
static PyMethodDef remove_method = {"remove", registry_remove, METH_O, "Remove the weak reference to a task."};

static bool is_known(void) {
    return registry.data && PySet_CheckExact(registry.data) && registry.waiting && PyList_CheckExact(registry.waiting) &&
           registry.iterates && PySet_CheckExact(registry.iterates) && registry.remove;
}

// registry_adopt makes the methods here those of a WeakSet of tasks. It reports whether the set is of the known kind.
PyObject *registry_adopt(PyObject *Py_UNUSED(module), PyObject *set) {
    if (registry.set)
        return PyBool_FromLong(registry.set == set);
    registry.data = PyObject_GetAttrString(set, "data");
    registry.waiting = PyObject_GetAttrString(set, "_pending_removals");
    registry.iterates = PyObject_GetAttrString(set, "_iterating");
    PyErr_Clear();
    registry.remove = PyCFunction_New(&remove_method, NULL);
    PyObject *add = PyCFunction_New(&add_method, NULL);
    if (!add || !is_known() || PyObject_SetAttrString(set, "add", add) < 0) {
        Py_CLEAR(registry.data);
        Py_CLEAR(registry.waiting);
        Py_CLEAR(registry.iterates);
        Py_CLEAR(registry.remove);
        PyErr_Clear();
    } else {
        registry.set = Py_NewRef(set);
    }
    Py_XDECREF(add);
    return PyBool_FromLong(registry.set == set);
}
