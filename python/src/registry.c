// asyncio's registry of tasks, without Python code for each task.
//
// Every task is added to a WeakSet when it is made, and its weak reference removes it when it is freed. WeakSet is
// written in Python, so these are two calls of Python functions for each task: a twentieth of a small request. The
// functions here do the same for asyncio's one set. They are attributes of it, which take precedence over methods. A
// registry that is not such a set stays as it is: asyncio's from 3.14 on is written in C.
//
// The functions live as long as the set does, which may be longer than the module. So each has what it needs in its
// self, a tuple.
#include "core.h"

enum { DATA, WAITING, ITERATES }; // of the set: its weak references, a set; those to be removed after iterations, a list; the iterations, a set
enum { REMOVE = ITERATES, SET };  // of add: called with a weak reference to a task that is freed; the set

static PyObject *registry_add(PyObject *of, PyObject *task) {
    if (PyList_GET_SIZE(PyTuple_GET_ITEM(of, WAITING)) > 0) {
        PyObject *set = PyTuple_GET_ITEM(of, SET);
        return PyObject_CallMethod((PyObject *)Py_TYPE(set), "add", "OO", set, task);
    }
    PyObject *ref = PyWeakref_NewRef(task, PyTuple_GET_ITEM(of, REMOVE));
    int r = ref ? PySet_Add(PyTuple_GET_ITEM(of, DATA), ref) : -1;
    Py_XDECREF(ref);
    if (r < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *registry_remove(PyObject *of, PyObject *ref) {
    if (PySet_GET_SIZE(PyTuple_GET_ITEM(of, ITERATES)) > 0 ? PyList_Append(PyTuple_GET_ITEM(of, WAITING), ref) < 0
                                                           : PySet_Discard(PyTuple_GET_ITEM(of, DATA), ref) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef add_method = {"add", registry_add, METH_O, "WeakSet.add for asyncio's tasks."};
static PyMethodDef remove_method = {"remove", registry_remove, METH_O, "Remove the weak reference to a task."};

static bool is_adopted(PyObject *set) {
    PyObject *add = PyObject_GetAttrString(set, "add");
    bool is = add && PyCFunction_CheckExact(add) && PyCFunction_GET_FUNCTION(add) == registry_add;
    Py_XDECREF(add);
    PyErr_Clear();
    return is;
}

// new_add returns the function that replaces WeakSet.add. It returns NULL if the set is not of the known kind.
static PyObject *new_add(PyObject *set) {
    PyObject *data = PyObject_GetAttrString(set, "data"), *waiting = PyObject_GetAttrString(set, "_pending_removals"),
             *iterates = PyObject_GetAttrString(set, "_iterating"), *of_remove = NULL, *remove = NULL, *of_add = NULL, *add = NULL;
    if (data && PySet_CheckExact(data) && waiting && PyList_CheckExact(waiting) && iterates && PySet_CheckExact(iterates) &&
        (of_remove = PyTuple_Pack(3, data, waiting, iterates)) && (remove = PyCFunction_New(&remove_method, of_remove)) &&
        (of_add = PyTuple_Pack(4, data, waiting, remove, set)))
        add = PyCFunction_New(&add_method, of_add);
    Py_XDECREF(data);
    Py_XDECREF(waiting);
    Py_XDECREF(iterates);
    Py_XDECREF(of_remove);
    Py_XDECREF(remove);
    Py_XDECREF(of_add);
    return add;
}

// registry_adopt makes the functions here those of a WeakSet of tasks. It reports whether the set is of the known kind.
PyObject *registry_adopt(PyObject *Py_UNUSED(module), PyObject *set) {
    if (is_adopted(set))
        Py_RETURN_TRUE;
    PyObject *add = new_add(set);
    bool adopted = add && PyObject_SetAttrString(set, "add", add) == 0;
    Py_XDECREF(add);
    PyErr_Clear();
    return PyBool_FromLong(adopted);
}
