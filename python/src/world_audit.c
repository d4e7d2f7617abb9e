// Uses of the real system inside a world: Python reports them to audit hooks before they happen.
#include "world.h"

static PyObject *refuse; // called with the event and its arguments; it raises unless the use is harmless

static const char *const events[] = { // beginnings of names
    "socket.",        "subprocess.Popen", "os.system",      "os.fork",       "os.posix_spawn", "os.exec",    "os.spawn",
    "pty.spawn",      "_thread.start_",   "open",           "os.kill",       "os.mkdir",       "os.rmdir",   "os.remove",
    "os.rename",      "os.link",          "os.symlink",     "os.truncate",   "os.chmod",       "os.chown",   "os.utime",
    "os.setxattr",    "os.removexattr",   "os.chflags",     "os.lockf",      "fcntl.flock",    "fcntl.lockf", "os.chdir",
    "resource.set",   "builtins.input",   "sqlite3.connect",
};

static int hook(const char *event, PyObject *args, void *Py_UNUSED(data)) {
    if (!world_runs || !refuse)
        return 0;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        if (strncmp(event, events[i], strlen(events[i])) != 0)
            continue;
        if (strcmp(event, "builtins.input/result") == 0)
            return 0;
        PyObject *r = PyObject_CallFunction(refuse, "sO", event, args);
        Py_XDECREF(r);
        return r ? 0 : -1;
    }
    return 0;
}

PyObject *world_refuse_by(PyObject *Py_UNUSED(module), PyObject *function) {
    bool first = !refuse;
    Py_INCREF(function);
    Py_XSETREF(refuse, function);
    if (first && PySys_AddAuditHook(hook, NULL) < 0)
        return NULL;
    Py_RETURN_NONE;
}
